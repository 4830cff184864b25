// How many bytes of images the requests under way may have together: patches take far more than the files that they are made of, and stay
// until the last token of an answer.

import { OverloadedError } from '../errors.ts';
import type { PromptImage } from '../images/image-processor.ts';

const MAX_BYTES = 512 * 2 ** 20;
const RETRY_AFTER_SECONDS = 1;

export class HeldImages {
  readonly #maxBytes: number;
  /** By caller, of those who have some. */
  readonly #bytesOf = new Map<string, number>();
  #numBytes = 0;

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /**
   * Holds the images of a request. One that is alone may have any number, and a caller with less than an equal share is let in.
   * @returns what releases them, once.
   * @throws OverloadedError where the requests under way have too many bytes.
   */
  hold(caller: string, images: readonly PromptImage[]): () => void {
    const wanted = images.reduce((sum, image) => sum + bytesOf(image), 0);
    if (wanted === 0) return () => {};
    this.#check(caller, wanted);
    this.#add(caller, wanted);
    return () => this.#add(caller, -wanted);
  }

  #check(caller: string, wanted: number): void {
    const own = this.#bytesOf.get(caller) ?? 0;
    const share = this.#maxBytes / (this.#bytesOf.size + (own === 0 ? 1 : 0));
    if (this.#numBytes === 0 || this.#numBytes + wanted <= this.#maxBytes || own + wanted <= share) return;
    throw new OverloadedError(
      `The server is full: the images that run or wait have ${this.#numBytes} bytes of pixels, ${own} of them yours, and ` +
        `${this.#maxBytes} are what it can keep; try again in ${RETRY_AFTER_SECONDS} s`,
      { retryAfter: RETRY_AFTER_SECONDS },
    );
  }

  #add(caller: string, numBytes: number): void {
    const own = (this.#bytesOf.get(caller) ?? 0) + numBytes;
    this.#numBytes += numBytes;
    if (own === 0) this.#bytesOf.delete(caller);
    else this.#bytesOf.set(caller, own);
  }
}

function bytesOf({ image: { tiles } }: PromptImage): number {
  return tiles.reduce((sum, { patches }) => sum + patches.byteLength, 0);
}
