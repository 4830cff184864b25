// Runs a scheduled step: inputs, forward pass, log-probabilities, sampling. The engine core is its only caller; it
// owns the KV memory.

import type { Model } from '../models/model.ts';
import type { KvCache, Ops, Tensor } from '../ops/ops.ts';
import type { ScheduledStep, StepResult } from '../scheduler/scheduled-step.ts';
import { buildForwardInputs } from './batch-inputs.ts';
import { scorePrompts } from './prompt-scoring.ts';
import { sampleRows } from './token-sampling.ts';

export class ModelRunner {
  readonly #ops: Ops;
  readonly #model: Model;
  readonly #cache: KvCache;

  constructor(ops: Ops, model: Model, numBlocks: number, blockSize: number) {
    this.#ops = ops;
    this.#model = model;
    this.#cache = ops.makeKvCache(model.kvCacheShape(numBlocks, blockSize));
  }

  run(step: ScheduledStep): StepResult {
    const inputs = buildForwardInputs(step, this.#cache.shape.blockSize);
    return this.#ops.scope(() => {
      const hidden = this.#model.forward(inputs, this.#cache);
      const { queryStarts } = inputs.batch;
      const promptLogprobs = scorePrompts(this.#ops, this.#model, hidden, step, queryStarts);
      return { ...this.#sample(step, hidden, queryStarts), promptLogprobs };
    });
  }

  #sample(
    step: ScheduledStep,
    hidden: Tensor,
    queryStarts: Int32Array,
  ): Pick<StepResult, 'tokenIds' | 'logprobs'> {
    const sampled = [...step.sequences.entries()].filter(([, { sampling }]) => sampling !== null);
    const tokenIds = new Array<number | null>(step.sequences.length).fill(null);
    const logprobs: StepResult['logprobs'][number][] = tokenIds.map(() => null);
    if (sampled.length === 0) return { tokenIds, logprobs };
    // Each sequence samples from its last row.
    const rows = Int32Array.from(sampled, ([index]) => queryStarts[index + 1]! - 1);
    const result = sampleRows(
      this.#ops,
      this.#model.logits(hidden, rows),
      sampled.map(([, sequence]) => sequence),
    );
    for (const [row, [index]] of sampled.entries()) {
      tokenIds[index] = result.tokenIds[row]!;
      logprobs[index] = result.logprobs[row]!;
    }
    return { tokenIds, logprobs };
  }
}
