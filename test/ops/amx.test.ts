// Runs the op tests on the AMX path where the processor has no AMX: in a child process under the emulator of
// native/test. Where it has AMX, the other files run on it directly.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { probeNative } from '../../src/native/native.ts';
import { needs } from '../helpers/needs.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const emulator = `${root}native/build/amx-emulator.so`;
const available = probeNative()?.instructionSets() ?? [];
// The AMX set is that of AVX-512 with other matrix products.
const canEmulate = available.includes('avx512-bf16') && !available.includes('amx-bf16');
const needsEmulator = needs(
  canEmulate,
  'the AMX emulator needs a processor with AVX512-BF16 and without AMX',
);

describe('AMX under the emulator', needsEmulator, () => {
  it('passes the tests of matrix products, batch invariance and wrong calls', { timeout: 300_000 }, () => {
    const make = ['--silent', '-C', `${root}native`, 'WERROR=-Werror', 'build/amx-emulator.so'];
    expect(spawnSync('make', make, { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
    const files = ['products', 'invariance', 'errors'].map((name) => `test/ops/${name}.test.ts`);
    const child = spawnSync(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', ...files], {
      cwd: root,
      encoding: 'utf8',
      env: {
        ...process.env,
        LD_PRELOAD: `${process.env.LD_PRELOAD ?? ''} ${emulator}`,
        SVC_TEST_ISA: 'amx-bf16',
      },
    });
    expect(child.status, child.stdout + child.stderr).toBe(0);
    expect(child.stdout).toMatch(/\d+ passed, 0 failed, 0 skipped/);
  });
});
