// Threads that are the ranks of groups, one group after the other.

import type { RankGroup } from '../../src/ops/ranks.ts';
import { CallThread } from '../../src/util/call-thread.ts';
import type { ProgramInput, ProgramName, ProgramResult } from './rank-programs.ts';
import type { RankOrder } from './rank-thread.ts';

const DEADLINE_MS = 30_000;

interface CrewOptions {
  readonly ranks?: readonly number[];
  /** Of each rank on a processor. */
  readonly threads?: number;
}

export class RankCrew {
  readonly #device: 'cpu' | 'cuda';
  readonly #threads: CallThread<RankOrder, unknown>[] = [];

  constructor(device: 'cpu' | 'cuda') {
    this.#device = device;
  }

  /** Opens a backend in each of the ranks, or in some of them. */
  async open(group: RankGroup, { ranks = allOf(group), threads = 1 }: CrewOptions = {}): Promise<void> {
    await Promise.all(
      ranks.map((rank) =>
        this.#thread(rank).call({ type: 'open', device: this.#device, threads, seat: group.seats[rank]! }),
      ),
    );
  }

  /** Runs a program in the ranks, which have opened their backends. */
  start<Name extends ProgramName>(
    ranks: readonly number[],
    program: Name,
    input: ProgramInput<Name>,
  ): Promise<ProgramResult<Name>>[] {
    return ranks.map(
      (rank) => this.#thread(rank).call({ type: 'run', program, input }) as Promise<ProgramResult<Name>>,
    );
  }

  /**
   * Opens backends in all ranks of the group, runs a program in each, and closes them when all have ended.
   * @returns what each gives; rejected with what the first of them throws.
   */
  async run<Name extends ProgramName>(
    group: RankGroup,
    program: Name,
    input: ProgramInput<Name>,
    options: CrewOptions = {},
  ): Promise<ProgramResult<Name>[]> {
    await this.open(group, options);
    const running = this.start(allOf(group), program, input);
    await Promise.allSettled(running);
    await this.release();
    return Promise.all(running);
  }

  /** Closes their backends, the first ones first; or those of some. */
  async release(ranks: readonly number[] = [...this.#threads.keys()]): Promise<void> {
    for (const rank of ranks) await this.#thread(rank).call({ type: 'close' });
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.splice(0).map((thread) => thread.close()));
  }

  #thread(rank: number): CallThread<RankOrder, unknown> {
    this.#threads[rank] ??= new CallThread<RankOrder, unknown>(new URL('./rank-thread', import.meta.url), {
      name: `test-rank-${rank}`,
      deadlineMs: DEADLINE_MS,
    });
    return this.#threads[rank];
  }
}

function allOf({ seats }: RankGroup): number[] {
  return seats.map(({ rank }) => rank);
}
