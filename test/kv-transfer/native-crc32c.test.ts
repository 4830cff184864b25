// The checksum of pieces and frames is CRC-32C, by whatever the processor computes it.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { probeNative } from '../../src/native/native.ts';
import { needsNative } from '../helpers/needs.ts';

const native = probeNative();
const NATIVE = fileURLToPath(new URL('../../native', import.meta.url));

describe('crc32c', needsNative, () => {
  it('is that of the standard', () => {
    expect(native?.crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
    expect(native?.crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(native?.crc32c(new Uint8Array(0))).toBe(0);
  });

  it('is the same by tables, by the instruction and by wide products, for sums and for copies', () => {
    const made = spawnSync('make', ['--silent', '-C', NATIVE, 'WERROR=-Werror', 'build/crc32c-check'], {
      encoding: 'utf8',
    });
    expect(made.stderr).toBe('');
    const { stdout, status } = spawnSync(`${NATIVE}/build/crc32c-check`, { encoding: 'utf8' });
    expect(stdout).toMatch(/^\d{3,}\n$/);
    expect(status).toBe(0);
  });
});
