// Long work on the main thread is cut into parts, and shares the turns of the event loop: those who work long take
// them in order, and events are handled in between.

/** Milliseconds of long work in one turn of the event loop, of all who have some together. */
const MAX_TURN_MS = 3;
const AT_ONCE = Promise.resolve();

/** A part of each turn of the event loop, shared by some work. */
export class TurnShare {
  readonly #maxMs: number;
  /** By performance.now(); null in a turn without such work so far. */
  #began: number | null = null;
  /** In the order in which they came. */
  readonly #waiting: (() => void)[] = [];

  constructor(maxMs: number) {
    this.#maxMs = maxMs;
  }

  /** To be awaited between two parts of the work: resolves in a later turn where this one's share is used up. */
  yieldTurn(): Promise<void> {
    this.#began ??= this.#begin();
    if (performance.now() - this.#began < this.#maxMs) return AT_ONCE;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #begin(): number {
    setImmediate(() => this.#end());
    return performance.now();
  }

  /** Runs in the last phase of the turn: the next one belongs to whoever has waited longest. */
  #end(): void {
    const next = this.#waiting.shift();
    this.#began = next === undefined ? null : this.#begin();
    next?.();
  }
}

const longWork = new TurnShare(MAX_TURN_MS);

/** To be awaited between two parts of long work: resolves in a later turn where this one has been long enough. */
export function yieldTurn(): Promise<void> {
  return longWork.yieldTurn();
}
