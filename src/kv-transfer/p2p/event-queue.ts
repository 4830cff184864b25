// Events of state machines, handled one after the other: an event that the effects of another cause waits for its turn, so
// that no machine is entered twice.

export class EventQueue<T> {
  readonly #handle: (event: T) => void;
  readonly #waiting: T[] = [];
  #isHandling = false;

  constructor(handle: (event: T) => void) {
    this.#handle = handle;
  }

  /** Returns when everything is handled, unless an event is being handled already. */
  push(event: T): void {
    this.#waiting.push(event);
    if (this.#isHandling) return;
    this.#isHandling = true;
    try {
      for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
        this.#handle(next);
      }
    } finally {
      this.#isHandling = false;
    }
  }
}
