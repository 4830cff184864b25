// What the constraint of a sequence lets its next token be, together with the rules that forbid tokens.

import type { Matcher } from '../structured-output/matcher.ts';
import { TooCostlyError } from '../structured-output/meter.ts';
import type { Vocabulary } from '../structured-output/vocabulary.ts';
import { addTo, fewIn, has, intersect, maskOf, removeUnlessAll } from './token-mask.ts';

/** No vocabulary has more tokens that are beginnings of one text. */
const MAX_SPELLINGS = 64;

/** A sequence in its constraint. */
export interface SequenceConstraint {
  readonly matcher: Matcher;
  readonly vocabulary: Vocabulary;
}

export class ConstrainedTokens {
  readonly #matcher: Matcher;
  readonly #vocabulary: Vocabulary;
  readonly #ends: Uint32Array;
  /** Null allows all. */
  readonly #allowed: Uint32Array | null;
  #isOver = false;
  #isTooCostly = false;

  /** @param allowedTokenIds null allows all; the end is always allowed where the constraint allows it */
  constructor({ matcher, vocabulary }: SequenceConstraint, allowedTokenIds: Int32Array | null) {
    this.#matcher = matcher;
    this.#vocabulary = vocabulary;
    const { maskWords, endTokenIds } = vocabulary;
    this.#ends = maskOf(maskWords, endTokenIds);
    this.#allowed = allowedTokenIds === null ? null : maskOf(maskWords, [...allowedTokenIds, ...endTokenIds]);
  }

  /** Whether an end token has come: the text is complete. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether following the constraint has cost more than it may: no token is allowed any more. */
  get isTooCostly(): boolean {
    return this.#isTooCostly;
  }

  /** Whether it is known how the text goes on. */
  get isForced(): boolean {
    return !this.#isOver && this.#walk(() => this.#matcher.forcedBytes().length > 0, false);
  }

  #walk<Result>(walk: () => Result, otherwise: Result): Result {
    if (this.#isTooCostly) return otherwise;
    try {
      return walk();
    } catch (error) {
      if (!(error instanceof TooCostlyError)) throw error;
      this.#isTooCostly = true;
      return otherwise;
    }
  }

  /**
   * The tokens that may come next. Those that are forbidden for other reasons give way where nothing else is left: first
   * `words`, then `ends`. Empty where nothing can come.
   */
  mask(ends: readonly number[], words: readonly number[]): Uint32Array {
    return this.#walk(() => this.#mask(ends, words), new Uint32Array(this.#vocabulary.maskWords));
  }

  #mask(ends: readonly number[], words: readonly number[]): Uint32Array {
    const mask = this.#isOver ? this.#ends.slice() : new Uint32Array(this.#vocabulary.maskWords);
    if (!this.#isOver) this.#matcher.fillMask(mask);
    if (this.#allowed !== null) intersect(mask, this.#allowed);
    removeUnlessAll(mask, ends);
    removeUnlessAll(mask, words);
    this.#keepLongestSpelling(mask);
    return mask;
  }

  /**
   * Where it is known how the text goes on, and every token that may come is a part of that, the longest one is the only
   * choice: the model has nothing to decide, and such tokens need no sampling. A token that goes on behind what is known is
   * the model's choice, and leaves it to the model.
   */
  #keepLongestSpelling(mask: Uint32Array): void {
    const ids = fewIn(mask, MAX_SPELLINGS);
    if (ids === null || ids.length < 2) return;
    const spellings = ids.map((id) => this.#vocabulary.bytesOf(id));
    const longest = spellings.reduce((most, bytes) => (lengthOf(bytes) > lengthOf(most) ? bytes : most));
    if (longest === null || !spellings.every((bytes) => bytes !== null && isPrefix(bytes, longest))) return;
    if (!isPrefix(longest, this.#matcher.forcedBytes())) return;
    mask.fill(0);
    addTo(mask, ids[spellings.indexOf(longest)]!);
  }

  /** Goes on by a token. @returns false, and nothing changes, where it must not come. */
  accept(tokenId: number): boolean {
    return this.#walk(() => this.#accept(tokenId), false);
  }

  #accept(tokenId: number): boolean {
    if (has(this.#ends, tokenId)) {
      this.#isOver = this.#matcher.isComplete;
      return this.#isOver;
    }
    if (this.#isOver || (this.#allowed !== null && !has(this.#allowed, tokenId))) return false;
    return this.#matcher.accept(tokenId);
  }

  /** Runs `body`, which may accept tokens, and takes them back. */
  lookAhead<T>(body: () => T): T {
    const [numTokens, isOver, isTooCostly] = [this.#matcher.numTokens, this.#isOver, this.#isTooCostly];
    const result = body();
    this.#matcher.rollback(this.#matcher.numTokens - numTokens);
    this.#isOver = isOver;
    this.#isTooCostly = isTooCostly;
    return result;
  }
}

function lengthOf(bytes: Uint8Array | null): number {
  return bytes?.length ?? 0;
}

function isPrefix(bytes: Uint8Array, text: Uint8Array): boolean {
  return bytes.length <= text.length && bytes.every((byte, at) => text[at] === byte);
}
