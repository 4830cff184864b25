// The interface of response writers: one for a request, with state for the whole answer and for each choice. A writer
// decides the bytes of its endpoint and knows nothing of sockets.

import type { CompletedSample } from '../engine/completed-sample.ts';
import type { OutputDelta } from '../engine/inference-engine.ts';
import type { SvcError } from '../errors.ts';

/** Whole events of an event stream, each with the blank line that ends it. */
export type Frames = readonly string[];

export interface ResponseWriter {
  /** The answer in one piece. Samples come in the order of the prompts, those of a prompt together. */
  body(samples: readonly CompletedSample[]): object;
  /** Frames at the beginning of a stream, before the engine has made anything. */
  open(): Frames;
  /**
   * Frames for what the engine added to a choice; none as long as there is nothing to show. A choice's next delta may come
   * once they are there.
   */
  delta(choice: number, delta: OutputDelta): Promise<Frames>;
  close(): Frames;
  /** Frames at the end of a stream that failed: its HTTP status was sent long ago. */
  fail(error: SvcError): Frames;
}
