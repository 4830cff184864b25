// Where one sequence is in its grammar.

import type { State } from './byte-automaton.ts';
import { Credit, type CreditMark, TooCostlyError } from './meter.ts';
import type { TokenAutomaton } from './token-automaton.ts';
import { fillWith, setBit, type TokenSet } from './token-set.ts';

/** Bytes that are forced at once: more wait for the next call. */
const MAX_FORCED = 256;
/** Steps in which they are found, known or not: they are of no cost to the sequence, and what costs more is not forced. */
const FORCED_WORK = 200_000;
/** Steps that may be done at most for what a sequence does not pay. */
const MOST_FREE = 8_000_000;

interface Accepted {
  /** After the token; null after one of the end. */
  readonly state: State | null;
  /** Of the credit before it. */
  readonly mark: CreditMark;
}

/**
 * Its methods throw TooCostlyError where the sequence has used up what its walks may cost. It pays with each token: for the mask
 * before it, where it has asked for that, and for the bytes of the token. What is taken back was never paid.
 */
export class Matcher {
  readonly #automaton: TokenAutomaton;
  readonly #credit = new Credit();
  readonly #accepted: Accepted[] = [];
  /** Whose masks it has asked for. */
  readonly #asked = new Set<State>();
  /** Null until it is first asked for. */
  #start: State | null = null;

  constructor(automaton: TokenAutomaton) {
    this.#automaton = automaton;
  }

  /** Steps that its walks have cost so far. */
  get cost(): number {
    return this.#credit.spent;
  }

  get #state(): State | null {
    if (this.#accepted.length > 0) return this.#accepted.at(-1)!.state;
    this.#start ??= this.#begin();
    return this.#start;
  }

  #begin(): State {
    const { bytes } = this.#automaton;
    const { value, part } = bytes.meter.measure(this.#credit.left, () => bytes.begin()).value;
    this.#credit.payPart(part);
    return value;
  }

  /** The text may end here. */
  get isComplete(): boolean {
    return this.#state?.isComplete ?? true;
  }

  /** Tokens accepted so far: what `rollback` may take back. */
  get numTokens(): number {
    return this.#accepted.length;
  }

  /** Writes the tokens that may come next, a bit each, over `maskWords` words; those of the end where the text may end. */
  fillMask(mask: Uint32Array): void {
    const state = this.#state;
    if (state === null) mask.fill(0);
    else fillWith(mask, this.#tokensAt(state));
    if (this.isComplete) for (const token of this.#automaton.vocabulary.endTokenIds) setBit(mask, token);
  }

  #tokensAt(state: State): TokenSet[] {
    const automaton = this.#automaton;
    this.#asked.add(state);
    let due = automaton.writingCost(state);
    const counted = new Set<unknown>();
    return state.configurations.flatMap((configuration) => {
      const isPaid = this.#credit.hasPaid(configuration);
      const left = isPaid ? Number.POSITIVE_INFINITY : this.#credit.left - due;
      const { within, leaving } = automaton.tokensAt(configuration, state, left);
      for (const { thing, steps } of isPaid ? [] : automaton.chargesOf(configuration)!) {
        if (counted.has(thing) || this.#credit.hasPaid(thing)) continue;
        counted.add(thing);
        due += steps;
      }
      if (due > this.#credit.left) throw new TooCostlyError('the mask costs more than its sequence has left');
      return [within, leaving];
    });
  }

  /** Goes on by a token; false, and nothing changes, where it may not come. After a token of the end only others of it may. */
  accept(tokenId: number): boolean {
    const from = this.#state;
    const { mark } = this.#credit;
    let next: State | null | undefined;
    try {
      if (from !== null) this.#payMask(from);
      next = this.#after(from, tokenId);
    } finally {
      if (next === undefined) this.#credit.restore(mark);
    }
    if (next === undefined) return false;
    this.#accepted.push({ state: next, mark });
    this.#credit.refill();
    return true;
  }

  /** Of a token that was not chosen by a mask there is none to pay: one of an answer that goes on elsewhere. */
  #payMask(state: State): void {
    if (!this.#asked.has(state)) return;
    const automaton = this.#automaton;
    this.#credit.spend(automaton.writingCost(state));
    for (const configuration of state.configurations) {
      const unknown = [{ thing: configuration, steps: Number.POSITIVE_INFINITY }];
      for (const charge of automaton.chargesOf(configuration) ?? unknown) this.#credit.pay(charge);
    }
  }

  /** Undefined where the token may not come. */
  #after(from: State | null, tokenId: number): State | null | undefined {
    const { vocabulary, bytes } = this.#automaton;
    if (vocabulary.endTokenIds.includes(tokenId)) return this.isComplete ? null : undefined;
    const text = vocabulary.bytesOf(tokenId);
    if (text === null) return undefined;
    let state = from;
    for (let i = 0; i < text.length && state !== null; i += 1) {
      const { left } = this.#credit;
      const here = state;
      const step = bytes.meter.measure(left, () => bytes.transition(here, text[i]!)).value;
      this.#credit.payPart(step.part);
      state = step.value;
    }
    return state ?? undefined;
  }

  /** Takes back the last `numTokens` accepted tokens. */
  rollback(numTokens: number): void {
    if (numTokens > this.numTokens)
      throw new RangeError(`cannot take back ${numTokens} of ${this.numTokens} tokens`);
    const [first] = this.#accepted.splice(this.numTokens - numTokens);
    if (first !== undefined) this.#credit.restore(first.mark);
  }

  /** The bytes that must come next: empty where there is a choice, the text may end, or it costs too much to find them. */
  forcedBytes(): Uint8Array {
    const forced: number[] = [];
    const { bytes } = this.#automaton;
    const find = (numNeeded: () => number): void => {
      let state = this.#state;
      while (state !== null && forced.length < MAX_FORCED) {
        const byte = bytes.onlyByte(state);
        if (byte === null || numNeeded() > FORCED_WORK) return;
        forced.push(byte);
        state = bytes.step(state, byte);
        if (numNeeded() > FORCED_WORK) return;
      }
    };
    try {
      bytes.meter.measure(MOST_FREE, find);
    } catch (error) {
      if (!(error instanceof TooCostlyError)) throw error;
    }
    return Uint8Array.from(forced);
  }
}
