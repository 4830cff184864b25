// Where in a sequence its newest tokens have come before, and what followed them there: the longest match wins, the latest
// among equals. The index grows with the sequence, so that a token costs the same however long the sequence is.
// After "Prompt Lookup Decoding" (Saxena, 2023); the chains of candidates are those of LZ77 compressors.

/** How many earlier places are compared with the end of the sequence. */
const MAX_CANDIDATES = 8;

export class NgramIndex {
  readonly #min: number;
  readonly #max: number;
  /** By key of `min` tokens: index of the token that followed them the last time. */
  readonly #latest = new Map<number, number>();
  /** By index of a token: the index of the one that followed the same key the time before; 0 is none. */
  readonly #earlier: number[] = [];

  /** Looks for `min` to `max` tokens. */
  constructor(min: number, max: number) {
    this.#min = min;
    this.#max = max;
  }

  /**
   * What is expected after `tokens`, `count` tokens of it: a match at the very end repeats itself.
   * @param tokens those of the calls before, and any number of new ones
   * @returns none where the newest tokens have not come before
   */
  continuation(tokens: readonly number[], count: number): number[] {
    const start = this.#findFollower(tokens);
    if (start === null) return [];
    const found: number[] = [];
    for (let index = start; found.length < count; index += 1) {
      found.push(index < tokens.length ? tokens[index]! : found[index - tokens.length]!);
    }
    return found;
  }

  /** Index of the token that followed the best match. */
  #findFollower(tokens: readonly number[]): number | null {
    this.#extend(tokens);
    if (tokens.length < this.#min) return null;
    let best: number | null = null;
    let bestLength = this.#min - 1;
    let follower = this.#latest.get(this.#keyBefore(tokens, tokens.length)) ?? 0;
    for (let tried = 0; follower > 0 && tried < MAX_CANDIDATES; tried += 1) {
      const length = this.#matchLength(tokens, follower);
      if (length > bestLength) [best, bestLength] = [follower, length];
      if (length === this.#max) break;
      follower = this.#earlier[follower]!;
    }
    return best;
  }

  #extend(tokens: readonly number[]): void {
    for (let index = this.#earlier.length; index < tokens.length; index += 1) {
      if (index < this.#min) {
        this.#earlier.push(0);
        continue;
      }
      const key = this.#keyBefore(tokens, index);
      this.#earlier.push(this.#latest.get(key) ?? 0);
      this.#latest.set(key, index);
    }
  }

  /** Different tokens may have the same key: a match is always compared. */
  #keyBefore(tokens: readonly number[], end: number): number {
    let key = 0;
    for (let index = end - this.#min; index < end; index += 1)
      key = Math.imul(key, 0x01000193) ^ tokens[index]!;
    return key;
  }

  /** How many tokens before `follower` are those at the end, up to `max`. */
  #matchLength(tokens: readonly number[], follower: number): number {
    const most = Math.min(this.#max, follower);
    let length = 0;
    while (length < most && tokens[follower - 1 - length] === tokens[tokens.length - 1 - length]) length += 1;
    return length;
  }
}
