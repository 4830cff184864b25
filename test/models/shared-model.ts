// A model that ranks share, driven as one: the ops of all ranks are called in turn, their streams run at the same time.

import type { CpuIsa } from '../../src/config/cpu-isa.ts';
import { type LoadOptions, loadModel } from '../../src/models/load-model.ts';
import type { Model } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { loadNative } from '../../src/native/native.ts';
import { openCpuDevice } from '../../src/ops/native/cpu-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { RankSeat } from '../../src/ops/ranks.ts';
import { openRankGroup } from '../../src/ops/select.ts';
import { ModelSession } from './model-session.ts';

interface Rank {
  readonly ops: NativeOps;
  readonly model: Model;
}

export type SharedOptions = Pick<LoadOptions, 'dtype'> &
  Partial<LoadOptions> & {
    readonly isa?: CpuIsa;
    /** What each rank loads it with besides. */
    readonly optionsOf?: (ops: NativeOps) => Partial<LoadOptions>;
  };

export class SharedModel {
  readonly ranks: readonly Rank[];
  readonly #breakUp: () => void;

  constructor(ranks: readonly Rank[], breakUp: () => void) {
    this.ranks = ranks;
    this.#breakUp = breakUp;
  }

  /** @param size 1 is a model that is whole. */
  static async load(folder: string, size: number, options: SharedOptions): Promise<SharedModel> {
    const group = size === 1 ? null : openRankGroup(size, 20_000);
    const seats: readonly (RankSeat | undefined)[] = group?.seats ?? [undefined];
    const ranks = await Promise.all(seats.map((seat) => loadOn(folder, size, options, seat)));
    return new SharedModel(ranks, () => group?.break('the test is over'));
  }

  session(maxTokens: number, adapter?: number) {
    const sessions = this.ranks.map(({ ops, model }) => new ModelSession(ops, model, maxTokens, adapter));
    return {
      /** Logits of the last `wanted` tokens, of rank 0. */
      run: (ids: readonly number[], wanted: number): Float32Array => {
        const reads = sessions.map((session) => session.launch(ids, wanted));
        return reads.map((read) => read())[0]!;
      },
    };
  }

  close(): void {
    for (const { ops } of this.ranks) ops.close();
    this.#breakUp();
  }
}

async function loadOn(
  folder: string,
  size: number,
  { isa, optionsOf, ...options }: SharedOptions,
  seat?: RankSeat,
): Promise<Rank> {
  const threads = { numThreads: size, cpuBind: null, cpuIsa: isa ?? null };
  const ops = new NativeOps(openCpuDevice(loadNative(), threads, seat));
  const own = { maxModelLen: null, ...options, ...optionsOf?.(ops) };
  return { ops, model: await loadModel(openModelSource(folder), ops, own) };
}
