// How fast the engine makes room, by what has ended lately: what a client that is turned away is told to wait.

/** Requests whose end is remembered: enough to even out, few enough to follow a change. */
const NUM_REMEMBERED = 64;
const MAX_SECONDS = 600;

/** Times are milliseconds of any one clock. */
export class DrainRate {
  #ends: { readonly at: number; readonly numPlaces: number }[] = [];
  /** Places that these gave back since then. */
  #numPlaces = 0;
  #since = 0;

  /** Something comes in where nothing was: the idle time before it tells nothing. */
  begin(now: number): void {
    this.#ends = [];
    this.#numPlaces = 0;
    this.#since = now;
  }

  end(numPlaces: number, now: number): void {
    this.#ends.push({ at: now, numPlaces });
    this.#numPlaces += numPlaces;
    if (this.#ends.length <= NUM_REMEMBERED) return;
    const forgotten = this.#ends.shift()!;
    this.#numPlaces -= forgotten.numPlaces;
    this.#since = forgotten.at;
  }

  /** Whole seconds, at least 1, until `numPlaces` more will have been given back. While nothing ends, the guess grows. */
  secondsUntil(numPlaces: number, now: number): number {
    // Where nothing has ended yet, the first place takes as long again as all have taken so far.
    const msPerPlace = (now - this.#since) / Math.max(1, this.#numPlaces);
    return Math.min(MAX_SECONDS, Math.max(1, Math.ceil((numPlaces * msPerPlace) / 1000)));
  }
}
