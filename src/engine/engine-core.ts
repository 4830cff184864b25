// The engine's loop body: schedule, forward, finish the step before, sample. A step is planned and launched while the
// one before it runs, so that the kernels never wait for JavaScript. It knows no thread and no text.

import type { EngineConfig } from '../config/engine-config.ts';
import type { AdapterSpec, LoadedAdapter } from '../models/adapters/load-adapter.ts';
import type { EngineInfo, Executor } from '../runner/executor.ts';
import { loadExecutor } from '../runner/load-executor.ts';
import type { LoadListeners } from '../runner/load-runner.ts';
import type { OnTransferEvent } from '../scheduler/block-transfers.ts';
import type { ScheduledStep } from '../scheduler/scheduled-step.ts';
import { Scheduler, type SchedulerConfig } from '../scheduler/scheduler.ts';
import type { CoreStats, StepOutputs } from './messages.ts';
import { PlanPoint } from './plan-point.ts';

interface EngineCoreListeners extends LoadListeners {
  /** Gets what the connector must know, as soon as it is known. */
  readonly onTransferEvent?: OnTransferEvent;
}

/** An adapter on its way, and who is told of it. */
interface AdapterLoading {
  readonly parts: Generator<void, LoadedAdapter, void>;
  readonly onLoaded: (adapter: LoadedAdapter) => void;
  readonly onRefused: (error: unknown) => void;
}

export class EngineCore {
  /** Takes requests, aborts and commands; they count from the next step on. */
  readonly scheduler: Scheduler;
  readonly executor: Executor;
  readonly #numStages: number;
  readonly #maxInFlight: number;
  readonly #planPoint = new PlanPoint();
  readonly #inFlight: ScheduledStep[] = [];
  /** The first one is being loaded. */
  readonly #loading: AdapterLoading[] = [];
  /** Adapters that are freed once no sequence names them. */
  readonly #retired = new Set<number>();

  constructor(
    executor: Executor,
    config: Omit<SchedulerConfig, 'numBlocks' | 'windows' | 'shortContext'>,
    onTransferEvent?: OnTransferEvent,
    maxInFlight = maxStepsInFlight(config),
  ) {
    this.executor = executor;
    const { info, draftModel } = executor;
    const { numBlocks, windows, stateBlocks, shortContext } = info;
    const limits = { ...config, ...limitsOf(info, config), numBlocks, windows, stateBlocks, shortContext };
    this.scheduler = new Scheduler(limits, draftModel, onTransferEvent);
    this.#numStages = config.pipelineParallelSize ?? 1;
    this.#maxInFlight = maxInFlight;
  }

  /**
   * Loads the model and takes the KV memory, in this thread and those of its ranks.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(config: EngineConfig, listeners: EngineCoreListeners = {}): Promise<EngineCore> {
    return new EngineCore(await loadExecutor(config, listeners), config, listeners.onTransferEvent);
  }

  get hasUnfinished(): boolean {
    return this.scheduler.hasUnfinished || this.#inFlight.length > 0;
  }

  get stats(): CoreStats {
    return { ...this.scheduler.stats, busySeconds: this.executor.busySeconds };
  }

  /** Returns when it is time to plan the next step: what comes until then can still be part of it. Stages wait for steps. */
  awaitPlanPoint(): void {
    if (this.#numStages === 1 && this.#inFlight.length >= this.#maxInFlight) this.executor.awaitPlanPoint();
  }

  /**
   * Launches a step if one can be planned, and finishes the oldest ones in flight.
   * @returns what came of those; null where there was nothing to do: the scheduler must be told something first
   */
  step(): StepOutputs[] | null {
    const startedAt = performance.now();
    const step = this.scheduler.schedule();
    const seeMs = this.#see(step);
    if (step.numTokens === 0) {
      if (this.#inFlight.length > 0) return [this.#finishOldest()];
      return step.tileWork.length > 0 ? [] : null;
    }
    this.executor.forward(step, this.#planPoint.layerShare);
    const planMs = performance.now() - startedAt - seeMs;
    const finished = this.#finishUntil(this.scheduler.needsPendingTokens(step) ? 0 : this.#maxInFlight - 1);
    this.#planPoint.update(planMs, finished.length > 0);
    this.executor.sample(this.scheduler.logitEdits(step));
    this.#inFlight.push(step);
    return finished;
  }

  /** Requests may name the adapter once `onLoaded` is called. */
  addAdapter(spec: AdapterSpec, listeners: Omit<AdapterLoading, 'parts'>): void {
    this.#loading.push({ ...listeners, parts: this.executor.loadAdapter(spec) });
  }

  /** No new request names the adapter; those that do go on with it. */
  retireAdapter(adapterId: number): void {
    this.#retired.add(adapterId);
  }

  /** Frees what is retired, and loads one more part, so that steps run in between. @returns whether there is more to load. */
  tendAdapters(): boolean {
    for (const id of this.#retired) {
      if (this.scheduler.usesAdapter(id)) continue;
      this.executor.unloadAdapter(id);
      this.#retired.delete(id);
    }
    const [first] = this.#loading;
    if (first === undefined) return false;
    try {
      const part = first.parts.next();
      if (part.done !== true) return true;
      first.onLoaded(part.value);
    } catch (error) {
      first.onRefused(error);
    }
    this.#loading.shift();
    return this.#loading.length > 0;
  }

  close(): void {
    this.executor.close();
  }

  /** @returns how long it took, in ms */
  #see({ tileWork }: ScheduledStep): number {
    if (tileWork.length === 0) return 0;
    const startedAt = performance.now();
    this.executor.see(tileWork);
    return performance.now() - startedAt;
  }

  #finishUntil(numLeft: number): StepOutputs[] {
    const finished: StepOutputs[] = [];
    while (this.#inFlight.length > numLeft) finished.push(this.#finishOldest());
    return finished;
  }

  #finishOldest(): StepOutputs {
    const step = this.#inFlight.shift()!;
    const result = this.executor.read();
    const at = performance.now();
    return { at, numTokens: step.numTokens, outputs: this.scheduler.update(step, result) };
  }
}

/** While the next one is planned: with it each stage has one, and a single stage is one ahead. */
function maxStepsInFlight({
  pipelineParallelSize: numStages = 1,
}: Pick<SchedulerConfig, 'pipelineParallelSize'>) {
  return Math.max(1, numStages - 1);
}

/**
 * A prompt that is computed whole fits into a step, and leaves nothing in the cache that another could begin with.
 */
function limitsOf(
  { computesWholePrompts, encoderCosts, wholeImageTokens, maxModelLen, maxNumSeqs, numSnapshots }: EngineInfo,
  {
    maxNumBatchedTokens,
    enablePrefixCaching,
  }: Pick<SchedulerConfig, 'maxNumBatchedTokens' | 'enablePrefixCaching'>,
) {
  return {
    computesWholePrompts,
    maxNumBatchedTokens: computesWholePrompts
      ? Math.max(maxNumBatchedTokens, maxModelLen)
      : maxNumBatchedTokens,
    encoderCosts,
    wholeImageTokens,
    maxNumSeqs,
    numSnapshots,
    enablePrefixCaching: enablePrefixCaching && !computesWholePrompts,
  };
}
