// How an answer is written. A writer belongs to one request and may keep state, for each choice too; it knows the
// bytes of its endpoint and nothing of sockets.

import type { CompletedSample } from '../engine/completed-sample.ts';
import type { OutputDelta } from '../engine/inference-engine.ts';
import type { SvcError } from '../errors.ts';

/** Whole events of an event stream, each with the blank line that ends it. */
export type Frames = readonly string[];

export interface ResponseWriter {
  /** The answer in one piece. Samples come in the order of the prompts, those of a prompt together. */
  body(samples: readonly CompletedSample[]): object;
  /** The beginning of a stream, before the engine has made anything. */
  open(): Frames;
  /** What the engine added to a choice; no frames as long as there is nothing to show. */
  delta(choice: number, delta: OutputDelta): Frames;
  /** The end of a complete stream. */
  close(): Frames;
  /** The end of a stream that failed: its status was sent long ago. */
  fail(error: SvcError): Frames;
}
