// How the engine thread shows that it goes on, in memory that the main thread sees too: what hangs in native code, or for ever in
// JavaScript, sends no message.

const RESTS = -1;

export class Pulse {
  readonly memory: SharedArrayBuffer;
  readonly #word: Int32Array;
  #beats = 0;

  /** @param memory of the one in the other thread; left out for the first of the two */
  constructor(memory = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#word = new Int32Array(memory);
  }

  beat(): void {
    this.#beats = (this.#beats + 1) & 0x7fff_ffff;
    Atomics.store(this.#word, 0, this.#beats);
  }

  /** There is nothing to do until the next beat. */
  rest(): void {
    Atomics.store(this.#word, 0, RESTS);
  }

  /** Counts the beats; null at rest. */
  get last(): number | null {
    const last = Atomics.load(this.#word, 0);
    return last === RESTS ? null : last;
  }
}
