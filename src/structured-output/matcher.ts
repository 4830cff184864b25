// Where one sequence is in its grammar.

import type { State } from './byte-automaton.ts';
import { Credit } from './meter.ts';
import type { TokenAutomaton } from './token-automaton.ts';
import { setBit } from './token-set.ts';

/** Bytes that are forced at once: more wait for the next call. */
const MAX_FORCED = 256;

/** Its methods throw TooCostlyError where the sequence has used up what its walks may cost. */
export class Matcher {
  readonly #automaton: TokenAutomaton;
  readonly #credit = new Credit();
  /** After each accepted token; null after one of the end. */
  readonly #states: (State | null)[] = [];
  /** Null until it is first asked for. */
  #start: State | null = null;

  constructor(automaton: TokenAutomaton) {
    this.#automaton = automaton;
  }

  get #state(): State | null {
    if (this.#states.length > 0) return this.#states.at(-1)!;
    this.#start ??= this.#charged(({ bytes }) => bytes.start());
    return this.#start;
  }

  #charged<Result>(walk: (automaton: TokenAutomaton) => Result): Result {
    return this.#automaton.bytes.meter.charge(this.#credit, () => walk(this.#automaton));
  }

  /** The text may end here. */
  get isComplete(): boolean {
    return this.#state?.isComplete ?? true;
  }

  /** Tokens accepted so far: what `rollback` may take back. */
  get numTokens(): number {
    return this.#states.length;
  }

  /** Writes the tokens that may come next, a bit each, over `maskWords` words; those of the end where the text may end. */
  fillMask(mask: Uint32Array): void {
    const state = this.#state;
    if (state === null) mask.fill(0);
    else this.#charged((automaton) => automaton.fillMask(state, mask));
    if (this.isComplete) for (const token of this.#automaton.vocabulary.endTokenIds) setBit(mask, token);
  }

  /** Goes on by a token; false, and nothing changes, where it may not come. After a token of the end only others of it may. */
  accept(tokenId: number): boolean {
    const next = this.#after(tokenId);
    if (next === undefined) return false;
    this.#states.push(next);
    this.#credit.refill();
    return true;
  }

  /** Undefined where the token may not come. */
  #after(tokenId: number): State | null | undefined {
    const state = this.#state;
    if (this.#automaton.vocabulary.endTokenIds.includes(tokenId)) return this.isComplete ? null : undefined;
    return state === null
      ? undefined
      : (this.#charged((automaton) => automaton.step(state, tokenId)) ?? undefined);
  }

  /** Takes back the last `numTokens` accepted tokens. */
  rollback(numTokens: number): void {
    if (numTokens > this.numTokens)
      throw new RangeError(`cannot take back ${numTokens} of ${this.numTokens} tokens`);
    this.#states.length -= numTokens;
  }

  /** The bytes that must come next: empty where there is a choice, or the text may end. */
  forcedBytes(): Uint8Array {
    const forced: number[] = [];
    let state = this.#state;
    this.#charged(({ bytes }) => {
      while (state !== null && forced.length < MAX_FORCED) {
        const byte = bytes.onlyByte(state);
        if (byte === null) break;
        forced.push(byte);
        state = bytes.step(state, byte);
      }
    });
    return Uint8Array.from(forced);
  }
}
