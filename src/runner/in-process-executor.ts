// The executor that runs the whole model in the thread that calls it: loads it, keeps the block tables of its requests,
// and turns each step into inputs of the model runner.

import type { EngineConfig } from '../config/engine-config.ts';
import type { KvCompatibility } from '../kv-transfer/connector.ts';
import { loadModel } from '../models/load-model.ts';
import type { ModelShape } from '../models/model.ts';
import { openModelSource } from '../models/source/model-source.ts';
import type { Ops } from '../ops/ops.ts';
import { selectOps } from '../ops/select.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import type { ScheduledStep, StepResult } from '../scheduler/scheduled-step.ts';
import { buildForwardInputs } from './batch-inputs.ts';
import type { EngineInfo, Executor } from './executor.ts';
import type { InFlightStep } from './in-flight-step.ts';
import { chooseNumBlocks } from './kv-budget.ts';
import { type ForwardPass, ModelRunner } from './model-runner.ts';
import { RequestStates } from './request-states.ts';

export interface LoadListeners {
  readonly onProgress?: (fraction: number, what: string) => void;
  /** Gets what a person should know though the model loads. */
  readonly onWarning?: (message: string) => void;
}

export class InProcessExecutor implements Executor {
  readonly info: EngineInfo;
  readonly #ops: Ops;
  readonly #runner: ModelRunner;
  readonly #requests = new RequestStates();
  /** Between `forward` and `sample`, else null. */
  #pass: ForwardPass | null = null;
  /** Steps that have not been read, the oldest first. */
  readonly #inFlight: InFlightStep[] = [];

  private constructor(info: EngineInfo, ops: Ops, runner: ModelRunner) {
    this.info = info;
    this.#ops = ops;
    this.#runner = runner;
  }

  /**
   * Loads the model and takes the KV memory.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(
    config: EngineConfig,
    { onProgress = () => {}, onWarning = () => {} }: LoadListeners = {},
  ): Promise<InProcessExecutor> {
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
    const kvCompatibility: KvCompatibility = {
      model: fingerprint,
      kernels: ops.isa,
      dtype: model.dtype,
      blockSize,
      layers: model.config.numLayers,
      layerBlockBytes: runner.layerBlockBytes,
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
      kvCompatibility: isShared ? kvCompatibility : null,
    };
    return new InProcessExecutor(info, ops, runner);
  }

  get memoryToken(): bigint | null {
    return this.#runner.memoryToken;
  }

  get busySeconds(): number | null {
    return this.#ops.busySeconds;
  }

  forward(step: ScheduledStep, planPoint: number): void {
    this.#requests.apply(step);
    const inputs = buildForwardInputs(step, this.info.blockSize, this.#requests);
    this.#pass = this.#runner.forward(step, inputs, planPoint);
  }

  sample(edits: readonly (RowEdits | null)[]): void {
    const pass = this.#pass;
    if (pass === null) throw new Error('no forward pass has been started to sample from');
    this.#pass = null;
    const inFlight = this.#runner.sample(pass, edits);
    if (inFlight.sampled !== null) this.#requests.noteSampled(pass.step, inFlight.sampled.tokens);
    this.#inFlight.push(inFlight);
  }

  awaitPlanPoint(): void {
    this.#inFlight[0]?.awaitPlanPoint();
  }

  read(): StepResult {
    const oldest = this.#inFlight.shift();
    if (oldest === undefined) throw new Error('no step is in flight to be read');
    return oldest.read();
  }

  close(): void {
    this.#ops.close();
  }
}
