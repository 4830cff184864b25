// Where one sequence is in its grammar.

import type { TokenAutomaton } from './token-automaton.ts';

export class Matcher {
  readonly #automaton: TokenAutomaton;

  constructor(automaton: TokenAutomaton) {
    this.#automaton = automaton;
  }

  /** The text may end here. */
  get isComplete(): boolean {
    return this.#automaton.grammar.maxDepth === 0;
  }

  /** Tokens accepted so far: what `rollback` may take back. */
  get numTokens(): number {
    return 0;
  }

  /** Writes the tokens that may come next, a bit each, over `maskWords` words; tokens of the end where the text may end. */
  fillMask(mask: Uint32Array): void {
    mask.fill(0);
  }

  /** Goes on by a token; false, and nothing changes, where it may not come. After a token of the end nothing may. */
  accept(tokenId: number): boolean {
    return tokenId < 0;
  }

  /** Takes back the last `numTokens` accepted tokens. */
  rollback(numTokens: number): void {
    if (numTokens > this.numTokens)
      throw new RangeError(`cannot take back ${numTokens} of ${this.numTokens} tokens`);
  }

  /** The bytes that must come next: empty where there is a choice, or the text may end. */
  forcedBytes(): Uint8Array {
    return new Uint8Array(0);
  }
}
