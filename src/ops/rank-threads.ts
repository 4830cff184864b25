// How many threads each rank computes with, and on which processors: the same answer in every rank.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import { showCpus } from '../util/cpu-list.ts';
import type { CpuTopology } from '../util/cpu-topology.ts';

/** The threads of one rank. */
export interface RankThreads {
  readonly count: number;
  /** Thread i runs on `cpus[i % cpus.length]` and on no other; null leaves it to the operating system. */
  readonly cpus: readonly number[] | null;
}

type ThreadOptions = Pick<EngineConfig, 'numThreads' | 'cpuBind'>;

interface Machine extends CpuTopology {
  /** Threads that are worth while: one a physical core, and no more than a quota of processors. */
  readonly granted: number;
}

/**
 * The threads of each of `numRanks` ranks.
 * @throws ConfigError where there are fewer cores or threads than ranks, or lists of processors that contradict the machine or each other.
 */
export function rankThreads(options: ThreadOptions, numRanks: number, machine: Machine): RankThreads[] {
  const { cpuBind } = options;
  if (cpuBind !== null && typeof cpuBind !== 'string') return listed(cpuBind, options, numRanks, machine);
  const most = threadsPerRank(options, numRanks, machine);
  const isBound = cpuBind === 'auto' || (cpuBind === null && numRanks > 1 && machine.nodes.length > 1);
  if (!isBound) return Array.from({ length: numRanks }, () => ({ count: most, cpus: null }));
  const shares = shareCores(machine.nodes, numRanks);
  const fewest = Math.max(1, Math.min(...shares.map(({ length }) => length)));
  const count = options.numThreads === null ? Math.min(most, fewest) : most;
  return shares.map((cores) => ({ count, cpus: cores.slice(0, count) }));
}

function threadsPerRank({ numThreads }: ThreadOptions, numRanks: number, { granted }: Machine): number {
  const count = Math.floor((numThreads ?? granted) / numRanks);
  if (count > 0) return count;
  throw new ConfigError(
    numThreads === null
      ? `${numRanks} ranks or stages (--tensor-parallel-size times --pipeline-parallel-size times --data-parallel-size) are more ` +
          `than the ${granted} cores that svc may use here: each computes on cores of its own; use at most ${granted}, or let ` +
          `them share cores with --num-threads ${numRanks}, which is slow`
      : `--num-threads ${numThreads} has no thread for each of ${numRanks} ranks or stages: use at least ${numRanks}`,
    { param: numThreads === null ? 'tensor-parallel-size' : 'num-threads' },
  );
}

/** Nodes are shared evenly among ranks; where there are fewer of them, ranks share the cores of a node evenly. */
function shareCores(nodes: CpuTopology['nodes'], numRanks: number): number[][] {
  const firstNode = (rank: number): number => Math.floor((rank * nodes.length) / numRanks);
  return Array.from({ length: numRanks }, (_, rank) => {
    if (nodes.length >= numRanks) return nodes.slice(firstNode(rank), firstNode(rank + 1)).flat();
    const node = nodes[firstNode(rank)]!;
    const peers = Array.from({ length: numRanks }, (_, peer) => peer).filter(
      (peer) => firstNode(peer) === firstNode(rank),
    );
    const place = peers.indexOf(rank);
    const share = Math.floor(node.length / peers.length);
    // More ranks than cores share them in turn.
    return share === 0 ? [node[place % node.length]!] : node.slice(place * share, (place + 1) * share);
  });
}

function listed(
  lists: readonly (readonly number[])[],
  { numThreads }: ThreadOptions,
  numRanks: number,
  { cpus }: Machine,
): RankThreads[] {
  const shown = lists.map(showCpus).join('|');
  const refuse = (why: string): ConfigError =>
    new ConfigError(`--cpu-bind ${shown} ${why}`, { param: 'cpu-bind' });
  if (lists.length !== numRanks) {
    throw refuse(
      `has ${lists.length} lists for ${numRanks} ranks or stages: give one list each, with | between them`,
    );
  }
  const all = lists.flat();
  const twice = all.find((cpu, index) => all.indexOf(cpu) !== index);
  if (twice !== undefined) throw refuse(`names processor ${twice} twice: give each to one rank, once`);
  const unknown = all.find((cpu) => !cpus.includes(cpu));
  if (unknown !== undefined) {
    throw refuse(`names processor ${unknown}, and svc may use ${showCpus(cpus)} here: name some of these`);
  }
  if (numThreads !== null && numThreads !== all.length) {
    throw refuse(
      `names ${all.length} processors for a thread each, and --num-threads asks for ${numThreads}: leave that out`,
    );
  }
  return lists.map((list) => ({ count: list.length, cpus: list }));
}
