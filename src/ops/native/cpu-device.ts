// The processor as a device of the addon.

import type { EngineConfig } from '../../config/engine-config.ts';
import { chooseIsa, chooseThreads, type Native } from '../../native/native.ts';
import { showCpus } from '../../util/cpu-list.ts';
import { readTopology } from '../../util/cpu-topology.ts';
import { freeHostMemory } from '../host-memory.ts';
import { type RankThreads, rankThreads } from '../rank-threads.ts';
import { ALONE, type RankSeat } from '../ranks.ts';
import type { NativeDevice } from './native-ops.ts';

type CpuOptions = Pick<EngineConfig, 'numThreads' | 'cpuBind' | 'cpuIsa'>;

/**
 * @param seat among ranks; left out where it is alone
 * @throws ConfigError for an instruction set that this processor lacks, a wrong number of threads, or processors to bind them to that
 *   are not there.
 */
export function openCpuDevice(native: Native, options: CpuOptions, seat?: RankSeat): NativeDevice {
  const isa = chooseIsa(native, options.cpuIsa);
  const ranks = seat ?? ALONE;
  const threads = threadsOf(native, options, ranks.size)[ranks.rank]!;
  const { count, cpus } = threads;
  return {
    native: new native.CpuBackend(
      isa,
      count,
      cpus === null ? undefined : Int32Array.from(cpus),
      seat?.group,
      seat?.rank,
    ),
    ranks,
    backend: 'cpu',
    description: `${isa}, ${describe(threads)}`,
    isa,
    packs: true,
    recordsSteps: false,
    freeMemory: freeHostMemory,
    deviceMemory: () => null,
  };
}

function threadsOf(native: Native, { numThreads, cpuBind }: CpuOptions, numRanks: number): RankThreads[] {
  const wanted = numThreads === null ? null : chooseThreads(native, numThreads);
  const machine = { ...readTopology(), granted: native.physicalCores() };
  return rankThreads({ numThreads: wanted, cpuBind }, numRanks, machine);
}

function describe({ count, cpus }: RankThreads): string {
  const bound =
    cpus === null ? '' : ` on ${cpus.length === 1 ? 'processor' : 'processors'} ${showCpus(cpus)}`;
  return `${count} ${count === 1 ? 'thread' : 'threads'}${bound}`;
}
