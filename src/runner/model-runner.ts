// Runs a scheduled step: inputs, forward pass, log-probabilities, sampling. The engine core is its only caller; it
// owns the KV memory.

import type { ForwardInputs, Model } from '../models/model.ts';
import type { KvCache, KvFeed, Ops, Tensor } from '../ops/ops.ts';
import type { ScheduledStep, StepResult } from '../scheduler/scheduled-step.ts';
import { buildForwardInputs, buildSends } from './batch-inputs.ts';
import { sampleRows } from './token-sampling.ts';
import { scoreTokens } from './token-scoring.ts';

export interface RunnerOptions {
  readonly numBlocks: number;
  readonly blockSize: number;
  /** Whether other instances may be given the KV memory to read. */
  readonly isShared: boolean;
}

export class ModelRunner {
  readonly #ops: Ops;
  readonly #model: Model;
  readonly #cache: KvCache;
  /** Null where nobody else reads the KV memory. */
  readonly #feed: KvFeed | null;

  /** @throws ConfigError where the backend cannot share its KV memory and is asked to. */
  constructor(ops: Ops, model: Model, { numBlocks, blockSize, isShared }: RunnerOptions) {
    this.#ops = ops;
    this.#model = model;
    this.#cache = ops.makeKvCache(model.kvCacheShape(numBlocks, blockSize), isShared);
    this.#feed = isShared ? ops.openFeed(this.#cache) : null;
  }

  /** Bytes of one block of one layer. */
  get pieceBytes(): number {
    return this.#cache.blockBytes;
  }

  /** Names the KV memory for the transfer engine; null where it is not shared. */
  get memoryToken(): bigint | null {
    return this.#feed?.token ?? null;
  }

  run(step: ScheduledStep): StepResult {
    const inputs = {
      ...buildForwardInputs(step, this.#cache.shape.blockSize),
      onLayer: this.#feedStep(step),
    };
    return this.#ops.scope(() => {
      const hidden = this.#model.forward(inputs, this.#cache);
      const { queryStarts } = inputs.batch;
      const scored = scoreTokens(this.#ops, this.#model, hidden, step, queryStarts);
      return { ...this.#sample(step, hidden, queryStarts), ...scored };
    });
  }

  /** A layer's blocks leave as soon as it is computed. */
  #feedStep(step: ScheduledStep): ForwardInputs['onLayer'] {
    const feed = this.#feed;
    const sends = feed === null ? null : buildSends(step);
    if (feed === null || sends === null) return undefined;
    feed.step(sends);
    return (layer) => feed.layer(layer);
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
