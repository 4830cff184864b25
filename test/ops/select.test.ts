import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { ConfigError, NativeAddonError } from '../../src/errors.ts';
import { selectOps } from '../../src/ops/select.ts';
import { availableBackends } from '../helpers/backends.ts';
import { needs, needsNative } from '../helpers/needs.ts';

const hasNative = availableBackends.includes('cpu');

describe('selectOps', () => {
  it('gives plain TypeScript where it is asked for', () => {
    const { ops, reason } = selectOps({ device: 'reference', numThreads: null, cpuIsa: null });
    expect([ops.backend, reason]).toEqual(['reference', 'asked for by --device reference']);
    ops.close();
  });

  it('chooses the native backend by itself exactly where its addon loads, and says why', () => {
    const { ops, reason } = selectOps({ device: 'auto', numThreads: 1, cpuIsa: null });
    expect(ops.backend).toBe(hasNative ? 'cpu' : 'reference');
    expect(reason).toMatch(hasNative ? /is built/ : /native addon.*npm run build/);
    ops.close();
  });

  it(
    'says how to build the addon where --device cpu misses it',
    needs(!hasNative, 'the native addon is built'),
    () => {
      const select = () => selectOps({ device: 'cpu', numThreads: null, cpuIsa: null });
      expect(select).toThrow(NativeAddonError);
      expect(select).toThrow(/npm run build/);
    },
  );

  it('shows threads and instruction set of the native backend', needsNative, () => {
    const { ops } = selectOps({ device: 'cpu', numThreads: 2, cpuIsa: null });
    expect(ops.description).toMatch(/^(amx|avx|portable).*, 2 threads$/);
    ops.close();
  });

  it('warns of more threads than there are processors, and of nothing else', needsNative, () => {
    const processors = availableParallelism();
    const all = selectOps({ device: 'cpu', numThreads: processors, cpuIsa: null });
    const one = selectOps({ device: 'auto', numThreads: processors + 1, cpuIsa: null });
    expect(all.warning).toBeNull();
    expect(one.warning).toContain(
      `--num-threads ${processors + 1} is more than the ${processors} processors`,
    );
    all.ops.close();
    one.ops.close();
  });

  it('refuses what this machine cannot do instead of serving slowly', needsNative, () => {
    expect(() => selectOps({ device: 'auto', numThreads: 1025, cpuIsa: null })).toThrow(ConfigError);
  });
});
