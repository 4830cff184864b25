// The engine's loop body: schedule -> run -> update. It knows no thread and no text; `engine-thread.ts` drives it.

import type { EngineConfig } from '../config/engine-config.ts';
import type { KvGeometry, TransferNotice, TransferOrder } from '../kv-transfer/connector.ts';
import { modelFingerprint } from '../models/fingerprint.ts';
import { loadModel } from '../models/registry.ts';
import type { Ops } from '../ops/ops.ts';
import { selectOps } from '../ops/select.ts';
import { chooseNumBlocks } from '../runner/kv-budget.ts';
import { ModelRunner } from '../runner/model-runner.ts';
import type { NewRequest } from '../scheduler/request.ts';
import { Scheduler, type TokenOutput } from '../scheduler/scheduler.ts';
import type { CoreStats, EngineInfo } from './messages.ts';

export type OnProgress = (fraction: number, what: string) => void;
export type OnNotices = (notices: readonly TransferNotice[]) => void;

export class EngineCore {
  readonly info: EngineInfo;
  /** Names the KV memory for the transfer engine; null where no KV blocks are exchanged. */
  readonly memoryToken: bigint | null;
  readonly #ops: Ops;
  readonly #scheduler: Scheduler;
  readonly #runner: ModelRunner;
  readonly #onNotices: OnNotices;
  #runSeconds = 0;
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
   * @param onNotices gets what the connector is to know, as soon as it is known.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(
    config: EngineConfig,
    onProgress: OnProgress,
    onNotices: OnNotices = () => {},
  ): Promise<EngineCore> {
    const { ops, reason } = selectOps(config);
    const { dtype, maxModelLen: wantedLength, blockSize, modelPath } = config;
    const model = await loadModel(modelPath, ops, { dtype, maxModelLen: wantedLength, onProgress });
    const maxModelLen = wantedLength ?? model.config.maxPositionEmbeddings;
    const numBlocks = chooseNumBlocks(config, model.kvCacheShape(1, blockSize), maxModelLen);
    const isShared = config.kvTransfer !== null;
    const runner = new ModelRunner(ops, model, { numBlocks, blockSize, isShared });
    const kvGeometry: KvGeometry = {
      model: isShared ? modelFingerprint(modelPath) : '',
      kernels: ops.kernels,
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
    return this.#scheduler.hasUnfinished;
  }

  /** Whether a step has something to compute: not where all there is waits for blocks or another instance's KV. */
  get canStep(): boolean {
    return this.hasUnfinished && !this.#isStalled;
  }

  get stats(): CoreStats {
    return { ...this.#scheduler.stats, runSeconds: this.#runSeconds };
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

  /** Computes one step; what it returns is each request's new token, if it got one. */
  step(): TokenOutput[] {
    const step = this.#scheduler.schedule();
    this.#tellNotices();
    this.#isStalled = step.sequences.length === 0;
    if (this.#isStalled) return [];
    const startedAt = performance.now();
    const result = this.#runner.run(step);
    this.#runSeconds += (performance.now() - startedAt) / 1000;
    return this.#scheduler.update(step, result);
  }

  close(): void {
    this.#ops.close();
  }

  #tellNotices(): void {
    const notices = this.#scheduler.takeNotices();
    if (notices.length > 0) this.#onNotices(notices);
  }
}
