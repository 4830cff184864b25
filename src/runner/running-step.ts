// A step that has been handed to the backend: what the step behind it needs of it, and its results once they are there.

import type { Pending, SampledTokens } from '../ops/ops.ts';
import type { ScheduledStep, StepResult } from '../scheduler/scheduled-step.ts';
import type { SampledRows } from './token-sampling.ts';
import type { ScoredTokens } from './token-scoring.ts';

export class RunningStep {
  readonly step: ScheduledStep;
  /** Its `read` returns when the step has been computed up to the layer that the launch named. */
  readonly nearlyDone: Pending<void>;
  readonly #sampled: SampledRows | null;
  readonly #scored: Pending<ScoredTokens>;
  /** By place in the step: which row of `#sampled` is the sequence's; null where it samples nothing. */
  readonly #rows: readonly (number | null)[];

  /** @param sampled has a row for each sequence that samples, in their order. */
  constructor(
    step: ScheduledStep,
    parts: {
      readonly nearlyDone: Pending<void>;
      readonly sampled: SampledRows | null;
      readonly scored: Pending<ScoredTokens>;
    },
  ) {
    this.step = step;
    this.nearlyDone = parts.nearlyDone;
    this.#sampled = parts.sampled;
    this.#scored = parts.scored;
    let numRows = 0;
    this.#rows = step.sequences.map(({ sampling }) => (sampling === null ? null : numRows++));
  }

  /** The tokens that the step samples, for ops; null where it samples none. */
  get sampledTokens(): SampledTokens | null {
    return this.#sampled?.tokens ?? null;
  }

  /** Which row of `sampledTokens` is that of the sequence at `place`. */
  rowOf(place: number): number {
    const row = this.#rows[place];
    if (row == null) throw new Error(`sequence ${place} of the step before samples no token`);
    return row;
  }

  /** Waits until the step is computed. */
  read(): StepResult {
    const tokens = this.#sampled?.tokens.read();
    const logprobs = this.#sampled?.logprobs.read();
    return {
      tokenIds: this.#rows.map((row) => (row === null ? null : tokens![row]!)),
      logprobs: this.#rows.map((row) => (row === null ? null : logprobs![row]!)),
      ...this.#scored.read(),
    };
  }
}
