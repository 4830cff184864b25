// Text that comes in pieces of any length, read by a coroutine as if it were there as a whole. So what is read from it cannot
// depend on where the pieces end.

/** A coroutine that waits for more text at each `yield`. */
export type Reading<T = void> = Generator<undefined, T, undefined>;

/** Characters that an attempt may look ahead: what needs more is taken for no call. */
const MAX_ATTEMPT = 16_384;

/** Of a character of two UTF-16 units. */
const FIRST_HALF = /[\ud800-\udbff]$/;

export class TextReader {
  #text = '';
  #at = 0;
  /** Half a character, which waits for its other half. */
  #half = '';
  #isEnded = false;
  /** Where the attempt that is under way began. */
  #anchor: number | null = null;

  add(text: string): void {
    const added = this.#half + text;
    const whole = FIRST_HALF.test(added) ? added.slice(0, -1) : added;
    this.#half = added.slice(whole.length);
    const kept = this.#anchor ?? this.#at;
    this.#text = this.#text.slice(kept) + whole;
    this.#at -= kept;
    if (this.#anchor !== null) this.#anchor = 0;
  }

  end(): void {
    this.#text += this.#half;
    this.#isEnded = true;
  }

  /** Text that was not read yet, at least one character of it, in an attempt as far as it may look; empty at the end. */
  *rest(): Reading<string> {
    return (yield* this.#has(1)) ? this.#text.slice(this.#at, this.#end) : '';
  }

  /** The next character, which stays; empty at the end. */
  *peek(): Reading<string> {
    return (yield* this.#has(1)) ? this.#text[this.#at]! : '';
  }

  /** Reads `numChars` that are known to be there. */
  advance(numChars: number): void {
    this.#at += numChars;
  }

  *advanceOverSpace(): Reading {
    yield* this.takeWhile(/\s/);
  }

  /** Reads characters for as long as `pattern` matches each of them. */
  *takeWhile(pattern: RegExp): Reading<string> {
    let text = '';
    for (let char = yield* this.peek(); char !== '' && pattern.test(char); char = yield* this.peek()) {
      text += char;
      this.advance(1);
    }
    return text;
  }

  /** Whether `word` comes next. */
  *isNext(word: string): Reading<boolean> {
    for (let length = 1; length <= word.length; length++) {
      if (!(yield* this.#has(length))) return false;
      if (this.#text[this.#at + length - 1] !== word[length - 1]) return false;
    }
    return true;
  }

  /** The same; it is read then. */
  *takeIf(word: string): Reading<boolean> {
    const isNext = yield* this.isNext(word);
    if (isNext) this.#at += word.length;
    return isNext;
  }

  /**
   * Reads up to the first of `stops`, and reads that too. No stop may be within another, unless it ends that one.
   * @param sink gets the text before it as it comes.
   * @returns the stop; null where the text ended before.
   */
  *copyUntil(stops: readonly string[], sink: (text: string) => void): Reading<string | null> {
    const stop = yield* this.copyUpTo(stops, sink);
    this.advance(stop?.length ?? 0);
    return stop;
  }

  /** The same, but the stop stays. */
  *copyUpTo(stops: readonly string[], sink: (text: string) => void): Reading<string | null> {
    for (;;) {
      const rest = yield* this.rest();
      if (rest === '') return null;
      const found = firstOf(rest, stops);
      if (found !== null) {
        if (found.at > 0) sink(rest.slice(0, found.at));
        this.#at += found.at;
        return found.stop;
      }
      const ready = this.#mayGrow ? rest.length - numHeldBack(rest, stops) : rest.length;
      if (ready > 0) sink(rest.slice(0, ready));
      this.#at += ready;
      if (ready < rest.length) yield;
    }
  }

  /** Runs `read`; where it gives null, nothing has been read. */
  *attempt<T>(read: () => Reading<T | null>): Reading<T | null> {
    this.#anchor = this.#at;
    const result = yield* read();
    if (result === null) this.#at = this.#anchor;
    this.#anchor = null;
    return result;
  }

  /** Whether there are so many unread characters, in an attempt that may still look ahead. */
  *#has(numChars: number): Reading<boolean> {
    for (;;) {
      if (this.#at + numChars <= Math.min(this.#text.length, this.#end)) return true;
      if (this.#isEnded || this.#at + numChars > this.#end) return false;
      yield;
    }
  }

  /** Where reading ends at the latest: an attempt looks ahead so far only. */
  get #end(): number {
    return this.#anchor === null ? Number.POSITIVE_INFINITY : this.#anchor + MAX_ATTEMPT;
  }

  /** Whether there can be more to read than there is. */
  get #mayGrow(): boolean {
    return !this.#isEnded && this.#text.length < this.#end;
  }
}

function firstOf(text: string, stops: readonly string[]): { at: number; stop: string } | null {
  let first: { at: number; stop: string } | null = null;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at >= 0 && (first === null || at < first.at)) first = { at, stop };
  }
  return first;
}

/** Characters at the end of `text` that may be the beginning of a stop. */
function numHeldBack(text: string, stops: readonly string[]): number {
  const longest = Math.max(...stops.map((stop) => stop.length)) - 1;
  for (let length = Math.min(longest, text.length); length > 0; length--) {
    const end = text.slice(-length);
    if (stops.some((stop) => stop.startsWith(end))) return length;
  }
  return 0;
}
