// The executor over the ranks of one model. Rank 0 computes in the thread that calls it and alone sees logits; the others follow,
// step by step. Its result is that of all.

import type { EngineConfig } from '../../config/engine-config.ts';
import type { KvMemoryPart } from '../../kv-transfer/connector.ts';
import type { AdapterSpec, LoadedAdapter } from '../../models/adapters/load-adapter.ts';
import type { RowEdits } from '../../sampling/logit-rules.ts';
import type { ScheduledStep, StepResult, TileWork } from '../../scheduler/scheduled-step.ts';
import type { Proposer } from '../../speculation/proposer.ts';
import type { EngineInfo, Executor, RankMemory } from '../executor.ts';
import { type LoadListeners, loadRunner } from '../load-runner.ts';
import { Followers } from './followers.ts';
import type { LoadedRank } from './messages.ts';

/**
 * Loads a slice of the model in each of `tensorParallelSize` ranks, all at the same time.
 * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend, and the rank that found it unless it is the first.
 */
export async function loadRanks(config: EngineConfig, listeners: LoadListeners): Promise<Executor> {
  const followers = new Followers(config, listeners);
  let leader: Executor | null = null;
  try {
    leader = await loadRunner(config, followers.listeners, followers.place);
    return new GroupExecutor(leader, followers, await followers.loaded());
  } catch (error) {
    followers.close();
    leader?.close();
    throw error;
  }
}

class GroupExecutor implements Executor {
  readonly info: EngineInfo;
  readonly kvParts: readonly KvMemoryPart[];
  /** Rank 0 guesses alone: the others know only which tokens a step has. */
  readonly draftModel: Proposer | null;
  readonly adapters: readonly LoadedAdapter[];
  readonly #leader: Executor;
  readonly #followers: Followers;

  constructor(leader: Executor, followers: Followers, loaded: readonly LoadedRank[]) {
    this.#leader = leader;
    this.#followers = followers;
    this.info = {
      ...leader.info,
      ...describeRanks([leader.info.ranks, ...loaded.map(({ shares }) => shares)]),
      isFromPackedCache: [leader.info, ...loaded].every(({ isFromPackedCache }) => isFromPackedCache),
    };
    this.kvParts = [...leader.kvParts, ...loaded.flatMap(({ kvParts }) => kvParts)];
    this.draftModel = leader.draftModel;
    this.adapters = leader.adapters;
  }

  get busySeconds(): number | null {
    return this.#leader.busySeconds;
  }

  see(work: readonly TileWork[]): void {
    this.#followers.send({ type: 'see', work });
    this.#among(() => this.#leader.see(work));
  }

  forward(step: ScheduledStep, planPoint: number): void {
    this.#followers.send({ type: 'step', step });
    this.#among(() => this.#leader.forward(step, planPoint));
  }

  sample(edits: readonly (RowEdits | null)[]): void {
    this.#among(() => this.#leader.sample(edits));
  }

  awaitPlanPoint(): void {
    this.#among(() => this.#leader.awaitPlanPoint());
  }

  read(): StepResult {
    return this.#among(() => this.#leader.read());
  }

  *loadAdapter(spec: AdapterSpec): Generator<void, LoadedAdapter, void> {
    try {
      return yield* this.#followers.loadAdapter(spec, this.#leader.loadAdapter(spec));
    } catch (error) {
      this.unloadAdapter(spec.id);
      throw error;
    }
  }

  unloadAdapter(adapterId: number): void {
    this.#followers.send({ type: 'unloadAdapter', adapterId });
    this.#leader.unloadAdapter(adapterId);
  }

  close(): void {
    this.#followers.close();
    this.#leader.close();
  }

  /** What has ended another rank says more than that this one cannot go on. */
  #among<T>(compute: () => T): T {
    try {
      return compute();
    } catch (error) {
      throw this.#followers.hearFailure() ?? error;
    }
  }
}

/** @param shares [ranks, stages] @returns those of the ranks of each stage beside each other, as their processors are */
function describeRanks(
  shares: readonly (readonly RankMemory[])[],
): Pick<EngineInfo, 'ranks' | 'compute' | 'weightBytes'> {
  const numStages = shares[0]!.length;
  const ranks = Array.from({ length: numStages }, (_, stage) =>
    shares.map((ofRank) => ofRank[stage]!),
  ).flat();
  const each = [...new Set(ranks.map(({ compute }) => compute))].join('; ');
  const stages = numStages === 1 ? '' : ` in ${numStages} pipeline stages`;
  return {
    ranks,
    compute: `${shares.length} ranks${stages}: ${each}`,
    weightBytes: ranks.reduce((sum, { weightBytes }) => sum + weightBytes, 0),
  };
}
