// The processor as a device of the addon.

import type { EngineConfig } from '../../config/engine-config.ts';
import { chooseIsa, chooseThreads, type Native } from '../../native/native.ts';
import { showCpus } from '../../util/cpu-list.ts';
import { readTopology } from '../../util/cpu-topology.ts';
import { freeHostMemory } from '../host-memory.ts';
import { type RankThreads, rankThreads } from '../rank-threads.ts';
import { ALONE, type RankPlace, type RankSeat } from '../ranks.ts';
import type { NativeDevice } from './native-ops.ts';

/** Left out, there is one engine. */
type EngineOptions = Partial<Pick<EngineConfig, 'dataParallelSize' | 'share'>>;
type CpuOptions = Pick<EngineConfig, 'numThreads' | 'cpuBind' | 'cpuIsa'> & EngineOptions;

/**
 * @param seat among ranks; left out where it is alone
 * @param place whose share of the threads it gets, of all that have threads of their own; left out, that of the rank
 * @throws ConfigError for an instruction set that this processor lacks, a wrong number of threads, or processors to bind them to that
 *   are not there.
 */
export function openCpuDevice(
  native: Native,
  options: CpuOptions,
  seat?: RankSeat,
  place: RankPlace = seat ?? ALONE,
): NativeDevice {
  const isa = chooseIsa(native, options.cpuIsa);
  const ranks = seat ?? ALONE;
  const threads = threadsOf(native, options, place);
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

/** The ranks of all engines share the machine, those of one engine beside each other. */
function threadsOf(native: Native, options: CpuOptions, { rank, size }: RankPlace): RankThreads {
  const { dataParallelSize = 1, share = null, numThreads, cpuBind } = options;
  const wanted = numThreads === null ? null : chooseThreads(native, numThreads);
  const machine = { ...readTopology(), granted: native.physicalCores() };
  const all = rankThreads({ numThreads: wanted, cpuBind }, dataParallelSize * size, machine);
  return all[(share?.rank ?? 0) * size + rank]!;
}

function describe({ count, cpus }: RankThreads): string {
  const bound =
    cpus === null ? '' : ` on ${cpus.length === 1 ? 'processor' : 'processors'} ${showCpus(cpus)}`;
  return `${count} ${count === 1 ? 'thread' : 'threads'}${bound}`;
}
