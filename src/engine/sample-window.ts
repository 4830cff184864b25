// The places of one client's request in the engine: as many of its samples as it has places are there at once, the
// others wait here for one of these to end.

/** Gives up a place, or the wait for one. Again, it does nothing. */
export type Leave = () => void;

export class SampleWindow {
  #numFree: number;
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

  /** The place goes to whoever has waited longest. */
  #pass(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#numFree += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
