// Hands a scheduled step to the backend: inputs, forward pass, log-probabilities, sampling. The engine core is its only
// caller; it owns the KV memory.

import type { ForwardInputs, Model } from '../models/model.ts';
import type { KvCache, KvSaveNotifier, Ops, Pending, Tensor } from '../ops/ops.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import type { ScheduledStep } from '../scheduler/scheduled-step.ts';
import { buildForwardInputs, buildSends } from './batch-inputs.ts';
import { RunningStep } from './running-step.ts';
import { type SampledRows, sampleRows } from './token-sampling.ts';
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
  readonly #kvSaves: KvSaveNotifier | null;

  /** @throws ConfigError where the backend cannot share its KV memory and is asked to. */
  constructor(ops: Ops, model: Model, { numBlocks, blockSize, isShared }: RunnerOptions) {
    this.#ops = ops;
    this.#model = model;
    this.#cache = ops.makeKvCache(model.kvCacheShape(numBlocks, blockSize), isShared);
    this.#kvSaves = isShared ? ops.openKvSaveNotifier(this.#cache) : null;
  }

  /** Bytes of one block of one layer. */
  get pieceBytes(): number {
    return this.#cache.layerBlockBytes;
  }

  /** Names the KV memory for the transfer engine; null where it is not shared. */
  get memoryToken(): bigint | null {
    return this.#kvSaves?.token ?? null;
  }

  /**
   * Launches `step` behind the step `before`, whose tokens it may build on without anyone having read them.
   * @param nearlyAll share of the layers behind which the step counts as nearly done.
   * @param chooseEdits is called when the forward pass has been launched and says what the logits of each sequence go
   * through: it may wait for the results of `before`, which the kernels do not.
   */
  launch(
    step: ScheduledStep,
    before: RunningStep | null,
    nearlyAll: number,
    chooseEdits: () => readonly (RowEdits | null)[],
  ): RunningStep {
    const inputs = buildForwardInputs(step, this.#cache.shape.blockSize, before);
    const { queryStarts } = inputs.batch;
    return this.#ops.scope(() => {
      const { hidden, nearlyDone } = this.#forward(step, inputs, nearlyAll);
      const scored = scoreTokens(this.#ops, this.#model, hidden, step, queryStarts);
      const sampled = this.#sample(step, hidden, queryStarts, chooseEdits());
      return new RunningStep(step, { nearlyDone, sampled, scored });
    });
  }

  #forward(
    step: ScheduledStep,
    inputs: ForwardInputs,
    nearlyAll: number,
  ): { readonly hidden: Tensor; readonly nearlyDone: Pending<void> } {
    const numNearlyAll = Math.floor(this.#model.config.numLayers * nearlyAll);
    const onLayerSaved = this.#notifyOfStep(step);
    let nearlyDone = this.#ops.mark();
    const onLayer = (layer: number): void => {
      onLayerSaved?.(layer);
      if (layer + 1 === numNearlyAll) nearlyDone = this.#ops.mark();
    };
    const hidden = this.#model.forward({ ...inputs, onLayer }, this.#cache);
    return { hidden, nearlyDone };
  }

  /** A layer's blocks leave as soon as it is computed. */
  #notifyOfStep(step: ScheduledStep): ((layer: number) => void) | null {
    const kvSaves = this.#kvSaves;
    const sends = kvSaves === null ? null : buildSends(step);
    if (kvSaves === null || sends === null) return null;
    kvSaves.onStep(sends);
    return (layer) => kvSaves.onLayerSaved(layer);
  }

  #sample(
    step: ScheduledStep,
    hidden: Tensor,
    queryStarts: Int32Array,
    edits: readonly (RowEdits | null)[],
  ): SampledRows | null {
    const sampling = [...step.sequences.entries()].filter(([, sequence]) => sequence.sampling !== null);
    if (sampling.length === 0) return null;
    // Each sequence samples from its last row.
    const rows = Int32Array.from(sampling, ([place]) => queryStarts[place + 1]! - 1);
    return sampleRows(
      this.#ops,
      this.#model.logits(hidden, rows),
      sampling.map(([place, sequence]) => ({ sequence, edits: edits[place]! })),
    );
  }
}
