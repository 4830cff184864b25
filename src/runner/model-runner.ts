// Hands a step to the backend: forward pass, log-probabilities of known tokens, sampling. Owns the KV memory.

import type { ForwardInputs, Model } from '../models/model.ts';
import type { KvCache, KvSaveNotifier, Ops, Pending, Scope, Tensor } from '../ops/ops.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import type { ScheduledStep } from '../scheduler/scheduled-step.ts';
import { buildSends } from './batch-inputs.ts';
import { InFlightStep } from './in-flight-step.ts';
import { computeKnownLogprobs, type KnownLogprobs } from './prompt-logprobs.ts';
import { type SampledRows, sampleRows } from './sample-rows.ts';

interface RunnerOptions {
  readonly numBlocks: number;
  readonly blockSize: number;
  /** Whether other instances may be given the KV memory to read. */
  readonly isShared: boolean;
}

/** A forward pass that has been started and not sampled yet. */
export interface ForwardPass {
  readonly step: ScheduledStep;
  /** Owns `hidden`; `sample` closes it. */
  readonly scope: Scope;
  readonly hidden: Tensor;
  readonly queryStarts: Int32Array;
  readonly planPoint: Pending<void>;
  readonly knownLogprobs: Pending<KnownLogprobs>;
}

export class ModelRunner {
  readonly #ops: Ops;
  readonly #model: Model;
  readonly #cache: KvCache;
  /** Null where nobody else reads the KV memory. */
  readonly #kvSaves: KvSaveNotifier | null;

  /** @throws ConfigError where the backend cannot share its KV memory and is asked to. */
  constructor(ops: Ops, model: Model, { numBlocks, blockSize, isShared }: RunnerOptions) {
    this.#ops = ops;
    this.#model = model;
    this.#cache = ops.makeKvCache(model.kvCacheShape(numBlocks, blockSize), isShared);
    this.#kvSaves = isShared ? ops.openKvSaveNotifier(this.#cache) : null;
  }

  /** Bytes of one block of one layer. */
  get layerBlockBytes(): number {
    return this.#cache.layerBlockBytes;
  }

  /** Names the KV memory for the transfer engine; null where it is not shared. */
  get memoryToken(): bigint | null {
    return this.#kvSaves?.token ?? null;
  }

  /** @param planPoint as in `Executor.forward` */
  forward(step: ScheduledStep, inputs: ForwardInputs, planPoint: number): ForwardPass {
    const scope = this.#ops.openScope();
    const planLayer = Math.floor(this.#model.config.numLayers * planPoint);
    const onLayerSaved = this.#notifyOfStep(step);
    let planMark = this.#ops.mark();
    const onLayer = (layer: number): void => {
      onLayerSaved?.(layer);
      if (layer + 1 === planLayer) planMark = this.#ops.mark();
    };
    const hidden = this.#model.forward({ ...inputs, onLayer }, this.#cache);
    const { queryStarts } = inputs.batch;
    const knownLogprobs = computeKnownLogprobs(this.#ops, this.#model, hidden, step, queryStarts);
    return { step, scope, hidden, queryStarts, planPoint: planMark, knownLogprobs };
  }

  /** @param edits as in `Executor.sample` */
  sample(pass: ForwardPass, edits: readonly (RowEdits | null)[]): InFlightStep {
    try {
      return new InFlightStep(pass.step, { ...pass, sampled: this.#sampleLastRows(pass, edits) });
    } finally {
      pass.scope.close();
    }
  }

  /** A layer's blocks leave as soon as it is computed. */
  #notifyOfStep(step: ScheduledStep): ((layer: number) => void) | null {
    const kvSaves = this.#kvSaves;
    const sends = kvSaves === null ? null : buildSends(step);
    if (kvSaves === null || sends === null) return null;
    kvSaves.onStep(sends);
    return (layer) => kvSaves.onLayerSaved(layer);
  }

  /** Each sequence samples from its last row. Null where none samples. */
  #sampleLastRows(
    { step, hidden, queryStarts }: ForwardPass,
    edits: readonly (RowEdits | null)[],
  ): SampledRows | null {
    const sampling = step.sequences.flatMap((sequence, index) =>
      sequence.sampling === null
        ? []
        : [{ sequence, edits: edits[index]!, row: queryStarts[index + 1]! - 1 }],
    );
    if (sampling.length === 0) return null;
    const rows = Int32Array.from(sampling, ({ row }) => row);
    return sampleRows(this.#ops, this.#model.logits(hidden, rows), sampling);
  }
}
