// The engine's loop body: schedule -> launch -> update. A step is planned and launched while the one before it runs, so
// that the kernels never wait for the loop. It knows no thread and no text; `engine-thread.ts` drives it.

import type { EngineConfig } from '../config/engine-config.ts';
import type { KvGeometry, TransferNotice, TransferOrder } from '../kv-transfer/connector.ts';
import { loadModel } from '../models/load-model.ts';
import type { ModelShape } from '../models/model.ts';
import { openModelSource } from '../models/source/model-source.ts';
import type { Ops } from '../ops/ops.ts';
import { selectOps } from '../ops/select.ts';
import { chooseNumBlocks } from '../runner/kv-budget.ts';
import { ModelRunner } from '../runner/model-runner.ts';
import type { RunningStep } from '../runner/running-step.ts';
import type { NewRequest } from '../scheduler/request.ts';
import { Scheduler } from '../scheduler/scheduler.ts';
import type { AnsweredStep, CoreStats, EngineInfo } from './messages.ts';

/** How many times as long as planning took the last time is left of a step when the next one is planned. */
const PLANNING_MARGIN = 4;

type OnNotices = (notices: readonly TransferNotice[]) => void;

export interface EngineCoreListeners {
  readonly onProgress?: (fraction: number, what: string) => void;
  /** Gets what the connector is to know, as soon as it is known. */
  readonly onNotices?: OnNotices;
  /** Gets what a person should know though the engine starts. */
  readonly onWarning?: (message: string) => void;
}

export class EngineCore {
  readonly info: EngineInfo;
  /** Names the KV memory for the transfer engine; null where no KV blocks are exchanged. */
  readonly memoryToken: bigint | null;
  readonly #ops: Ops;
  readonly #scheduler: Scheduler;
  readonly #runner: ModelRunner;
  readonly #onNotices: OnNotices;
  /** What the kernels are computing. */
  #running: RunningStep | null = null;
  /** Share of a step's layers behind which the next step is planned. */
  #planBehind = 0;
  #answeredAt = 0;
  #isStalled = false;

  private constructor(
    info: EngineInfo,
    ops: Ops,
    scheduler: Scheduler,
    runner: ModelRunner,
    onNotices: OnNotices,
  ) {
    this.info = info;
    this.memoryToken = runner.memoryToken;
    this.#ops = ops;
    this.#scheduler = scheduler;
    this.#runner = runner;
    this.#onNotices = onNotices;
  }

  /**
   * Loads the model and takes the KV memory.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(
    config: EngineConfig,
    { onProgress = () => {}, onNotices = () => {}, onWarning = () => {} }: EngineCoreListeners = {},
  ): Promise<EngineCore> {
    const { ops, reason, warning } = selectOps(config);
    if (warning !== null) onWarning(warning);
    const { dtype, maxModelLen: wantedLength, blockSize, modelPath } = config;
    const lengthOf = (model: ModelShape): number => wantedLength ?? model.config.maxPositionEmbeddings;
    const blocksFor = (model: ModelShape): number =>
      chooseNumBlocks(config, model.kvCacheShape(1, blockSize), lengthOf(model), ops.freeMemory());
    // What does not fit now will not fit beside the weights.
    const onOpen = (model: ModelShape): void => void blocksFor(model);
    const options = { dtype, maxModelLen: wantedLength, onOpen, onWarning, onProgress };
    const source = openModelSource(modelPath);
    const model = await loadModel(source, ops, options);
    const maxModelLen = lengthOf(model);
    const numBlocks = blocksFor(model);
    const isShared = config.kvTransfer !== null;
    const runner = new ModelRunner(ops, model, { numBlocks, blockSize, isShared });
    const fingerprint = source.fingerprint();
    const kvGeometry: KvGeometry = {
      model: fingerprint,
      kernels: ops.isa,
      dtype: model.dtype,
      blockSize,
      layers: model.config.numLayers,
      pieceBytes: runner.pieceBytes,
      numBlocks,
    };
    const info: EngineInfo = {
      model: modelPath,
      architecture: model.config.architecture,
      dtype: model.dtype,
      backend: ops.backend,
      isa: ops.isa,
      modelFingerprint: fingerprint,
      compute: ops.description,
      backendReason: reason,
      weightBytes: model.weightBytes,
      numBlocks,
      blockSize,
      maxModelLen,
      vocabSize: model.config.vocabSize,
      maxConcurrency: (numBlocks * blockSize) / maxModelLen,
      kvGeometry: isShared ? kvGeometry : null,
    };
    return new EngineCore(info, ops, new Scheduler({ ...config, numBlocks }), runner, onNotices);
  }

  get hasUnfinished(): boolean {
    return this.#scheduler.hasUnfinished || this.#running !== null;
  }

  /** Whether a step has something to compute: not where all there is waits for blocks or another instance's KV. */
  get canStep(): boolean {
    return this.hasUnfinished && !this.#isStalled;
  }

  get stats(): CoreStats {
    return { ...this.#scheduler.stats, busySeconds: this.#ops.busySeconds };
  }

  add(request: NewRequest): void {
    this.#scheduler.add(request);
    this.#isStalled = false;
  }

  abort(requestId: number): void {
    this.#scheduler.abort(requestId);
    this.#isStalled = false;
    this.#tellNotices();
  }

  /** What the connector says of a transfer. */
  follow(order: TransferOrder): void {
    this.#scheduler.follow(order);
    this.#isStalled = false;
  }

  /** Forgets every cached block; false, and nothing is forgotten, while requests run. */
  resetPrefixCache(): boolean {
    return this.#scheduler.resetPrefixCache();
  }

  /** Returns when it is time to plan the next step: what comes until then can still be part of it. */
  awaitPlanning(): void {
    this.#running?.nearlyDone.read();
  }

  /**
   * Launches a step, then answers the one before it.
   * @returns what came of the step before; null where there was none.
   */
  step(): AnsweredStep | null {
    const startedAt = performance.now();
    const before = this.#running;
    const step = this.#scheduler.schedule();
    this.#tellNotices();
    if (step.sequences.length === 0) {
      this.#running = null;
      this.#isStalled = before === null;
      return this.#answer(before);
    }
    let answered: AnsweredStep | null = null;
    this.#running = this.#runner.launch(step, before, this.#planBehind, () => {
      const planMs = performance.now() - startedAt;
      answered = this.#answer(before);
      this.#choosePlanningPoint(planMs, before !== null);
      return this.#scheduler.logitEdits(step);
    });
    return answered;
  }

  /** Called when a step is answered; `isNext` where the one before it was answered a step ago. */
  #choosePlanningPoint(planMs: number, isNext: boolean): void {
    const answeredAt = performance.now();
    const stepMs = answeredAt - this.#answeredAt;
    this.#answeredAt = answeredAt;
    if (isNext) this.#planBehind = Math.max(0, 1 - (PLANNING_MARGIN * planMs) / stepMs);
  }

  /** Waits until the step is computed. */
  #answer(running: RunningStep | null): AnsweredStep | null {
    if (running === null) return null;
    const result = running.read();
    const at = performance.now();
    const outputs = this.#scheduler.update(running.step, result);
    return { at, numTokens: running.step.numTokens, outputs };
  }

  close(): void {
    this.#ops.close();
  }

  #tellNotices(): void {
    const notices = this.#scheduler.takeNotices();
    if (notices.length > 0) this.#onNotices(notices);
  }
}
