// How many bytes of images the requests under way may have together: patches take far more than the files that they are made of, and stay
// until the last token of an answer.

import { OverloadedError } from '../errors.ts';

const MAX_BYTES = 512 * 2 ** 20;
const RETRY_AFTER_SECONDS = 1;

/** The images of one request. */
interface ImagesOfRequest {
  /**
   * Adds one that has been made ready. A request that is alone may have any number, and a caller with less than an equal share is let in.
   * @throws OverloadedError where the requests under way have too many bytes.
   */
  hold(numBytes: number): void;
  /** All of them. */
  release(): void;
}

export class HeldImages {
  readonly #maxBytes: number;
  /** By caller, of those who have some. */
  readonly #bytesOf = new Map<string, number>();
  #numBytes = 0;

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** For a request, which has none yet. */
  open(caller: string): ImagesOfRequest {
    let numHeld = 0;
    return {
      hold: (numBytes) => {
        this.#check(caller, numHeld, numBytes);
        this.#add(caller, numBytes);
        numHeld += numBytes;
      },
      release: () => {
        this.#add(caller, -numHeld);
        numHeld = 0;
      },
    };
  }

  #check(caller: string, numHeld: number, wanted: number): void {
    const isAlone = this.#numBytes === numHeld;
    const own = this.#bytesOf.get(caller) ?? 0;
    const share = this.#maxBytes / (this.#bytesOf.size + (own === 0 ? 1 : 0));
    if (isAlone || this.#numBytes + wanted <= this.#maxBytes || own + wanted <= share) return;
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
