// A step that has been handed to the backend: its results, once they are there.

import { NO_TOKEN, type Pending } from '../ops/ops.ts';
import type { Logprobs } from '../sampling/logprobs.ts';
import type { ScheduledStep, SequenceOutput, StepResult } from '../scheduler/scheduled-step.ts';
import type { KnownLogprobs } from './prompt-logprobs.ts';
import type { SampledRows } from './sample-rows.ts';

export class InFlightStep {
  /** Null where the step samples nothing. */
  readonly sampled: SampledRows | null;
  readonly #step: ScheduledStep;
  readonly #planPoint: Pending<void>;
  readonly #knownLogprobs: Pending<KnownLogprobs>;

  /**
   * @param planPoint its `read` returns when the step is computed up to the layer that `forward` was given
   * @param sampled has a row for each sequence that samples, in their order
   */
  constructor(
    step: ScheduledStep,
    parts: {
      readonly planPoint: Pending<void>;
      readonly sampled: SampledRows | null;
      readonly knownLogprobs: Pending<KnownLogprobs>;
    },
  ) {
    this.#step = step;
    this.#planPoint = parts.planPoint;
    this.sampled = parts.sampled;
    this.#knownLogprobs = parts.knownLogprobs;
  }

  awaitPlanPoint(): void {
    this.#planPoint.read();
  }

  /** Waits until the step is computed. */
  read(): StepResult {
    const tokens = this.sampled?.tokens.read();
    const logprobs = this.sampled?.logprobs.read();
    let row = 0;
    const outputs = this.#step.sequences.map(({ sampling }): SequenceOutput | null => {
      if (sampling === null) return null;
      const output = outputOf(tokens![row]!, logprobs![row]!);
      row += 1;
      return output;
    });
    return { outputs, ...this.#knownLogprobs.read() };
  }
}

function outputOf(tokenId: number, logprobs: Logprobs | null): SequenceOutput {
  return tokenId === NO_TOKEN ? { kind: 'brokenLogits' } : { kind: 'tokens', tokenIds: [tokenId], logprobs };
}
