// The engine's loop body: schedule -> run -> update. It knows no thread and no text; `engine-thread.ts` drives it.

import type { EngineConfig } from '../config/engine-config.ts';
import { loadModel } from '../models/registry.ts';
import type { Ops } from '../ops/ops.ts';
import { selectOps } from '../ops/select.ts';
import { chooseNumBlocks } from '../runner/kv-budget.ts';
import { ModelRunner } from '../runner/model-runner.ts';
import type { NewRequest } from '../scheduler/request.ts';
import { Scheduler, type TokenOutput } from '../scheduler/scheduler.ts';
import type { EngineInfo, EngineStats } from './messages.ts';

export type OnProgress = (fraction: number, what: string) => void;

export class EngineCore {
  readonly info: EngineInfo;
  readonly #ops: Ops;
  readonly #scheduler: Scheduler;
  readonly #runner: ModelRunner;
  #runSeconds = 0;

  private constructor(info: EngineInfo, ops: Ops, scheduler: Scheduler, runner: ModelRunner) {
    this.info = info;
    this.#ops = ops;
    this.#scheduler = scheduler;
    this.#runner = runner;
  }

  /**
   * Loads the model and takes the KV memory.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(config: EngineConfig, onProgress: OnProgress): Promise<EngineCore> {
    const { ops, reason } = selectOps(config);
    const { dtype, maxModelLen: wantedLength, blockSize, modelPath } = config;
    const model = await loadModel(modelPath, ops, { dtype, maxModelLen: wantedLength, onProgress });
    const maxModelLen = wantedLength ?? model.config.maxPositionEmbeddings;
    const numBlocks = chooseNumBlocks(config, model.kvCacheShape(1, blockSize), maxModelLen);
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
    };
    const runner = new ModelRunner(ops, model, numBlocks, blockSize);
    return new EngineCore(info, ops, new Scheduler({ ...config, numBlocks }), runner);
  }

  get hasUnfinished(): boolean {
    return this.#scheduler.hasUnfinished;
  }

  get stats(): EngineStats {
    return { ...this.#scheduler.stats, runSeconds: this.#runSeconds };
  }

  add(request: NewRequest): void {
    this.#scheduler.add(request);
  }

  abort(requestId: number): void {
    this.#scheduler.abort(requestId);
  }

  /** Forgets every cached block; false, and nothing is forgotten, while requests run. */
  resetPrefixCache(): boolean {
    return this.#scheduler.resetPrefixCache();
  }

  /** Computes one step; what it returns is each request's new token, if it got one. */
  step(): TokenOutput[] {
    const step = this.#scheduler.schedule();
    const startedAt = performance.now();
    const result = this.#runner.run(step);
    this.#runSeconds += (performance.now() - startedAt) / 1000;
    return this.#scheduler.update(step, result);
  }

  close(): void {
    this.#ops.close();
  }
}
