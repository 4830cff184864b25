import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ConfigError, NativeAddonError } from '../../src/errors.ts';
import { selectOps } from '../../src/ops/select.ts';
import { readTopology } from '../../src/util/cpu-topology.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needs, needsNative } from '../helpers/needs.ts';
import { until } from '../helpers/until.ts';

/** Ids of the threads of this process that compute. */
function kernelThreads(): string[] {
  const isKernel = (id: string): boolean =>
    readFileSync(`/proc/self/task/${id}/comm`, 'utf8').trim() === 'svc-kernel';
  return readdirSync('/proc/self/task').filter(isKernel);
}

function processorsOf(thread: string): string | undefined {
  const status = readFileSync(`/proc/self/task/${thread}/status`, 'utf8');
  return /^Cpus_allowed_list:\s*(.+)$/m.exec(status)?.[1];
}

const hasNative = availableBackends.includes('cpu');

afterEach(() => void vi.unstubAllEnvs());

describe('selectOps', () => {
  it('gives plain TypeScript where it is asked for', () => {
    const { ops, reason } = selectOps({ ...ENGINE_DEFAULTS, device: 'reference', numThreads: null });
    expect([ops.backend, reason]).toEqual(['reference', 'asked for by --device reference']);
    ops.close();
  });

  it('chooses the native backend by itself exactly where its addon loads, and says why', () => {
    const { ops, reason } = selectOps({ ...ENGINE_DEFAULTS, device: 'auto', numThreads: 1 });
    expect(ops.backend).toBe(hasNative ? 'cpu' : 'reference');
    expect(reason).toMatch(hasNative ? /is built/ : /native addon.*npm run build/);
    ops.close();
  });

  it(
    'says how to build the addon where --device cpu misses it',
    needs(!hasNative, 'the native addon is built'),
    () => {
      const select = () => selectOps({ ...ENGINE_DEFAULTS, device: 'cpu', numThreads: null });
      expect(select).toThrow(NativeAddonError);
      expect(select).toThrow(/npm run build/);
    },
  );

  it.each([
    ['/nowhere/svc.node', /^SVC_NATIVE_ADDON names \/nowhere\/svc\.node, where there is no file: .*unset/],
    ['package.json', /^SVC_NATIVE_ADDON names \/.*\/package\.json, which is of another version: ./],
    ['README.md', /^SVC_NATIVE_ADDON names \/.*\/README\.md, which does not load \(./],
  ])('takes nothing in the place of the addon that SVC_NATIVE_ADDON names: %s', (named, message) => {
    vi.stubEnv('SVC_NATIVE_ADDON', named);
    const select = (device: 'auto' | 'reference') =>
      selectOps({ ...ENGINE_DEFAULTS, device, numThreads: null }).ops.close();
    expect(() => select('auto')).toThrow(ConfigError);
    expect(() => select('auto')).toThrow(message);
    expect(() => select('reference')).not.toThrow();
  });

  it('finds an addon that is named by a path from the working directory', needsNative, () => {
    vi.stubEnv('SVC_NATIVE_ADDON', 'native/build/svc.node');
    const { ops } = selectOps({ ...ENGINE_DEFAULTS, device: 'auto', numThreads: 1 });
    expect(ops.backend).toBe('cpu');
    ops.close();
  });

  it('shows threads and instruction set of the native backend', needsNative, () => {
    const { ops } = selectOps({ ...ENGINE_DEFAULTS, device: 'cpu', numThreads: 2 });
    expect(ops.description).toMatch(/^(amx|avx|portable).*, 2 threads$/);
    ops.close();
  });

  it('warns of more threads than there are processors, and of nothing else', needsNative, () => {
    const processors = availableParallelism();
    const all = selectOps({ ...ENGINE_DEFAULTS, device: 'cpu', numThreads: processors });
    const one = selectOps({ ...ENGINE_DEFAULTS, device: 'auto', numThreads: processors + 1 });
    expect(all.warning).toBeNull();
    expect(one.warning).toContain(
      `--num-threads ${processors + 1} is more than the ${processors} processors`,
    );
    all.ops.close();
    one.ops.close();
  });

  it('binds each thread to the processor that --cpu-bind names for it', needsNative, async () => {
    const [cpu] = readTopology().cpus;
    const before = kernelThreads();
    const { ops } = selectOps({ ...ENGINE_DEFAULTS, device: 'cpu', cpuBind: [[cpu!]] });
    const own = (): string[] => kernelThreads().filter((thread) => !before.includes(thread));
    await until(() => own().length > 0);
    expect(ops.description).toMatch(/, 1 thread on processor \d+$/);
    expect(own().map(processorsOf)).toEqual([`${cpu}`]);
    ops.close();
  });

  it('refuses what this machine cannot do instead of serving slowly', needsNative, () => {
    expect(() => selectOps({ ...ENGINE_DEFAULTS, device: 'auto', numThreads: 1025 })).toThrow(ConfigError);
  });
});
