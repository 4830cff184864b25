// A grammar over the tokens of a vocabulary: its states and masks, shared by the sequences that it constrains.
//
// The mask of a state is the union of those of its points. At a point most tokens stay within the lexeme, whatever is
// around it: that part is found by one walk of the lexeme's automaton over the trie and kept. Only tokens that leave the
// lexeme in their middle, such as a closing quote and a comma in one, are followed through the stack.

import { ByteAutomaton, isOpen, type State } from './byte-automaton.ts';
import type { Grammar } from './grammar.ts';
import { LexemeWalker } from './lexeme-tokens.ts';
import type { Configuration, Frame } from './stack.ts';
import { fillWith, tokenSetOf } from './token-set.ts';
import type { KnownTokens, LexemeTokens, PointTokens, Vocabulary } from './vocabulary.ts';

/** Of a word of a mask that is copied, and of a node of the trie that is followed: in the steps of a meter. */
const WORD_WORK = 0.1;
const CHILD_WORK = 10;

export class TokenAutomaton {
  readonly grammar: Grammar;
  readonly vocabulary: Vocabulary;
  readonly bytes: ByteAutomaton;
  readonly #walker: LexemeWalker;

  /** @param known what has been found out about the grammar already */
  constructor(grammar: Grammar, vocabulary: Vocabulary, known: KnownTokens = []) {
    this.grammar = grammar;
    this.vocabulary = vocabulary;
    this.bytes = new ByteAutomaton(grammar);
    this.#walker = new LexemeWalker(this.bytes.lexer, vocabulary, known);
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
    const { meter } = this.bytes;
    meter.spend(state.configurations.length * this.vocabulary.maskWords * WORD_WORK);
    const sets = state.configurations.flatMap((configuration) => {
      const { within, leaving } = this.#tokensAt(configuration);
      return [within, leaving];
    });
    fillWith(mask, sets);
  }

  #tokensAt(configuration: Configuration): PointTokens {
    const known = this.vocabulary.masks.get(configuration);
    if (known !== undefined) return known;
    const { lexeme, state, stack } = configuration;
    const { meter, machine } = this.bytes;
    const open = machine.openKeys(lexeme, stack);
    const before = this.#walker.numVisited;
    const walked = this.#walker.tokensAt(lexeme, state, open);
    meter.spend(this.vocabulary.maskWords + this.#walker.numVisited - before + walked.exits.length);
    const leaving = this.#leaving(stack, walked, open);
    const made = { within: walked.tokens, leaving: tokenSetOf(leaving, this.vocabulary.maskWords) };
    this.vocabulary.masks.set(configuration, made);
    return made;
  }

  /** The tokens that leave the lexeme before their end, some of them more than once. */
  #leaving(stack: Frame, { exits, labels }: LexemeTokens, open: Uint32Array | null): number[] {
    const found: number[] = [];
    let label = -1;
    let after: State | null = null;
    for (let i = 0; i < exits.length; i += 1) {
      if (labels[i] !== label) {
        label = labels[i]!;
        after = isOpen(open, label) ? this.#after(stack, label) : null;
      }
      if (after !== null) this.#addBelow(exits[i]!, after, found);
    }
    return found;
  }

  /** What follows a lexeme that has ended with this label; null where nothing can. */
  #after(stack: Frame, label: number): State | null {
    const steps = this.bytes.machine.after(stack, label).filter((step) => step !== 'end');
    return steps.length === 0 ? null : this.bytes.state(steps, false);
  }

  /** Adds the tokens of the trie below a node that go on from a state. */
  #addBelow(node: number, from: State, found: number[]): void {
    const { byte, depth, end, firstToken, tokensInOrder } = this.vocabulary.trie;
    const base = depth[node]!;
    const last = end[node]!;
    const path: State[] = [from];
    for (let child = node + 1; child < last; ) {
      this.bytes.meter.spend(CHILD_WORK);
      const level = depth[child]! - base;
      const state = this.bytes.step(path[level - 1]!, byte[child]!);
      if (state === null) {
        child = end[child]!;
        continue;
      }
      for (let i = firstToken[child]!; i < firstToken[child + 1]!; i += 1) found.push(tokensInOrder[i]!);
      path[level] = state;
      child += 1;
    }
  }
}
