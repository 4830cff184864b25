// Tells the proxy that reads a stream which tokens each event was made of: in a comment line before the event, which
// every client of the protocol skips.

import type { Frames } from './response-writer.ts';

export class StreamJournal {
  /** By choice: tokens that no event has shown yet. */
  readonly #pending: number[][] = [];

  /** `frames` with their comments; `tokenIds`, and those before that gave no frame, belong to the last of them. */
  annotate(choice: number, tokenIds: readonly number[], frames: Frames): Frames {
    this.#pending[choice] ??= [];
    const pending = this.#pending[choice];
    pending.push(...tokenIds);
    return frames.map((frame, index) => {
      const shown = index === frames.length - 1 ? pending.splice(0).join(',') : '';
      return `: ${choice} ${shown}\n${frame}`;
    });
  }
}
