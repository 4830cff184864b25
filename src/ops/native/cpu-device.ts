// The processor as a device of the addon.

import type { CpuIsa } from '../../config/cpu-isa.ts';
import { chooseIsa, chooseThreads, type Native } from '../../native/native.ts';
import { freeHostMemory } from '../host-memory.ts';
import type { NativeDevice } from './native-ops.ts';

interface CpuOptions {
  /** Null is one a physical core. */
  readonly threads: number | null;
  /** Null is the best that the processor has. */
  readonly isa: CpuIsa | null;
}

/** @throws ConfigError for an instruction set that this processor lacks, or a wrong number of threads. */
export function openCpuDevice(native: Native, options: CpuOptions): NativeDevice {
  const isa = chooseIsa(native, options.isa);
  const threads = chooseThreads(native, options.threads);
  return {
    native: new native.CpuBackend(isa, threads),
    backend: 'cpu',
    description: `${isa}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`,
    isa,
    packs: true,
    recordsSteps: false,
    freeMemory: freeHostMemory,
    deviceMemory: () => null,
  };
}
