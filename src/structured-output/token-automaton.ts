// A grammar over the tokens of a vocabulary: its states and masks, shared by the sequences that it constrains.
//
// The mask of a state is the union of those of its points. At a point most tokens stay within the lexeme, whatever is
// around it: that part is found by one walk of the lexeme's automaton over the trie and kept. Only tokens that leave the
// lexeme in their middle, such as a closing quote and a comma in one, are followed through the stack.

import { LruCache } from '../util/lru-cache.ts';
import { ByteAutomaton, isOpen, type State } from './byte-automaton.ts';
import type { Grammar } from './grammar.ts';
import { LexemeWalker } from './lexeme-tokens.ts';
import type { Configuration, Frame } from './stack.ts';
import { addTo, bytesOfSet, setBit, type TokenSet, toTokenSet } from './token-set.ts';
import type { LexemeTokens, Vocabulary } from './vocabulary.ts';

/** Of the masks of one grammar. */
const MAX_MASK_BYTES = 32 * 2 ** 20;

export class TokenAutomaton {
  readonly grammar: Grammar;
  readonly vocabulary: Vocabulary;
  readonly bytes: ByteAutomaton;
  readonly #walker: LexemeWalker;
  readonly #masks = new LruCache<Configuration, TokenSet>(MAX_MASK_BYTES, bytesOfSet);
  readonly #scratch: Uint32Array;

  constructor(grammar: Grammar, vocabulary: Vocabulary) {
    this.grammar = grammar;
    this.vocabulary = vocabulary;
    this.bytes = new ByteAutomaton(grammar);
    this.#walker = new LexemeWalker(this.bytes.lexer, vocabulary);
    this.#scratch = new Uint32Array(vocabulary.maskWords);
  }

  /** Null where the token is no text, or no text goes on with it. */
  step(state: State, tokenId: number): State | null {
    const bytes = this.vocabulary.bytesOf(tokenId);
    if (bytes === null) return null;
    let next: State | null = state;
    for (let i = 0; i < bytes.length && next !== null; i += 1) next = this.bytes.step(next, bytes[i]!);
    return next;
  }

  /** The tokens that may come next, those of the end left out. */
  fillMask(state: State, mask: Uint32Array): void {
    mask.fill(0);
    for (const configuration of state.configurations) addTo(mask, this.#tokensAt(configuration));
  }

  #tokensAt(configuration: Configuration): TokenSet {
    const known = this.#masks.get(configuration);
    if (known !== undefined) return known;
    const { lexeme, state, stack } = configuration;
    const open = this.bytes.machine.openKeys(lexeme, stack);
    const within = this.#walker.tokensAt(lexeme, state, open);
    this.#scratch.fill(0);
    addTo(this.#scratch, within.tokens);
    this.#addLeaving(configuration, within, open);
    const tokens = toTokenSet(this.#scratch);
    this.#masks.set(configuration, tokens);
    return tokens;
  }

  /** Adds the tokens that leave the lexeme before their end. */
  #addLeaving({ stack }: Configuration, { exits, labels }: LexemeTokens, open: Uint32Array | null): void {
    let label = -1;
    let after: State | null = null;
    for (let i = 0; i < exits.length; i += 1) {
      if (labels[i] !== label) {
        label = labels[i]!;
        after = isOpen(open, label) ? this.#after(stack, label) : null;
      }
      if (after !== null) this.#addBelow(exits[i]!, after);
    }
  }

  /** What follows a lexeme that has ended with this label; null where nothing can. */
  #after(stack: Frame, label: number): State | null {
    const steps = this.bytes.machine.after(stack, label).filter((step) => step !== 'end');
    return steps.length === 0 ? null : this.bytes.state(steps, false);
  }

  /** Adds the tokens of the trie below a node that go on from a state. */
  #addBelow(node: number, from: State): void {
    const { byte, depth, end, firstToken, tokensInOrder } = this.vocabulary.trie;
    const base = depth[node]!;
    const last = end[node]!;
    const path: State[] = [from];
    for (let child = node + 1; child < last; ) {
      const level = depth[child]! - base;
      const state = this.bytes.step(path[level - 1]!, byte[child]!);
      if (state === null) {
        child = end[child]!;
        continue;
      }
      for (let i = firstToken[child]!; i < firstToken[child + 1]!; i += 1)
        setBit(this.#scratch, tokensInOrder[i]!);
      path[level] = state;
      child += 1;
    }
  }
}
