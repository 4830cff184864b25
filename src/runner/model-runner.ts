// Runs a scheduled step: inputs, forward pass, sampling. The engine core is its only caller; it owns the KV memory.

import type { Model } from '../models/model.ts';
import type { KvCache, Ops } from '../ops/ops.ts';
import type { ScheduledStep } from '../scheduler/scheduled-step.ts';
import { buildForwardInputs, buildSamplingRows } from './batch-inputs.ts';

export class ModelRunner {
  readonly #ops: Ops;
  readonly #model: Model;
  readonly #cache: KvCache;

  constructor(ops: Ops, model: Model, numBlocks: number, blockSize: number) {
    this.#ops = ops;
    this.#model = model;
    this.#cache = ops.makeKvCache(model.kvCacheShape(numBlocks, blockSize));
  }

  /** @returns one token id for each sequence of `step` that samples, in order. */
  run(step: ScheduledStep): Int32Array {
    const inputs = buildForwardInputs(step, this.#cache.shape.blockSize);
    return this.#ops.scope(() => {
      const logits = this.#model.forward(inputs, this.#cache);
      return inputs.logitRows.length === 0
        ? new Int32Array(0)
        : this.#ops.sample(logits, buildSamplingRows(step));
    });
  }
}
