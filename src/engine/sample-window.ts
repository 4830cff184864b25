// The places of one client's request in the engine: as many of its samples as it has places are there at once, the
// others wait here for one of these to end.

/** Gives up a place, or the wait for one. Idempotent. */
export type Leave = () => void;

export class SampleWindow {
  #numFree: number;
  /** Places are being passed on: what is given up meanwhile is passed on by the same loop, however many do so. */
  #isPassing = false;
  readonly #waiting = new Set<() => void>();

  constructor(numPlaces: number) {
    this.#numFree = numPlaces;
  }

  get numWaiting(): number {
    return this.#waiting.size;
  }

  /** Calls `start` as soon as there is a place: at once, or when another sample leaves. */
  enter(start: () => void): Leave {
    let isPlaced = false;
    const place = (): void => {
      isPlaced = true;
      start();
    };
    if (this.#numFree > 0) {
      this.#numFree -= 1;
      place();
    } else {
      this.#waiting.add(place);
    }
    return () => {
      if (isPlaced) this.#pass();
      else this.#waiting.delete(place);
      isPlaced = false;
    };
  }

  /** The place goes to whoever has waited longest; one that gives it up as it starts leaves it to the next. */
  #pass(): void {
    this.#numFree += 1;
    if (this.#isPassing) return;
    this.#isPassing = true;
    try {
      for (const next of this.#waiting) {
        if (this.#numFree === 0) break;
        this.#numFree -= 1;
        this.#waiting.delete(next);
        next();
      }
    } finally {
      this.#isPassing = false;
    }
  }
}
