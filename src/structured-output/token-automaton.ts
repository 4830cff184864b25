// A grammar over the tokens of a vocabulary: its states and masks, shared by the sequences that it constrains.
//
// The mask of a state is the union of those of its points. At a point most tokens stay within the lexeme, whatever is
// around it: that part is found by one walk of the lexeme's automaton over the trie and kept. Only tokens that leave the
// lexeme in their middle, such as a closing quote and a comma in one, are followed through the stack.

import { ByteAutomaton, isOpen, type State } from './byte-automaton.ts';
import type { Grammar } from './grammar.ts';
import { LexemeWalker, type Walk } from './lexeme-tokens.ts';
import type { Charge } from './meter.ts';
import type { Configuration, Frame } from './stack.ts';
import { tokenSetOf, unionOf } from './token-set.ts';
import type { KnownTokens, LexemeTokens, PointTokens, Vocabulary } from './vocabulary.ts';

/** Of a word of a mask that is copied, and of a node of the trie that is followed: in the steps of a meter. */
const WORD_WORK = 0.1;
const CHILD_WORK = 10;

export class TokenAutomaton {
  readonly grammar: Grammar;
  readonly vocabulary: Vocabulary;
  readonly bytes: ByteAutomaton;
  readonly #walker: LexemeWalker;
  readonly #charges = new WeakMap<Configuration, readonly Charge[]>();

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

  /** What writing the mask of a state costs beside finding out about its points: in the steps of a meter. */
  writingCost(state: State): number {
    return state.configurations.length * this.vocabulary.maskWords * WORD_WORK;
  }

  /** What finding out the tokens of a point costs, with nothing known; undefined where nobody has. */
  chargesOf(configuration: Configuration): readonly Charge[] | undefined {
    return this.#charges.get(configuration);
  }

  /**
   * The tokens that may come next at a point of a state, those of the end left out.
   * @param most steps that may be done for it.
   */
  tokensAt(configuration: Configuration, state: State, most: number): PointTokens {
    const known = this.vocabulary.masks.get(configuration);
    if (known !== undefined) return known;
    const { value, numNeeded } = this.bytes.meter.measure(most, () => this.#find(configuration, state));
    const walks = value.walks.map(([key, { work }]) => ({ thing: key, steps: work }));
    this.#charges.set(configuration, [{ thing: configuration, steps: numNeeded }, ...walks]);
    this.vocabulary.masks.set(configuration, value.tokens);
    return value.tokens;
  }

  /** @returns the walks, too, for which a sequence pays once whatever is around the lexeme. */
  #find(
    { lexeme, state, stack }: Configuration,
    { home }: State,
  ): { tokens: PointTokens; walks: readonly Walk[] } {
    const { meter, machine } = this.bytes;
    const { maskWords } = this.vocabulary;
    const open = machine.openKeys(lexeme, stack);
    const walks = this.#walker.tokensAt(lexeme, state, open);
    meter.spend(maskWords);
    const leaving = walks.flatMap(([, walked]) => this.#leaving(stack, walked, open, home));
    const within = unionOf(
      walks.map(([, { tokens }]) => tokens),
      maskWords,
    );
    return { tokens: { within, leaving: tokenSetOf(leaving, maskWords) }, walks };
  }

  /** The tokens that leave the lexeme before their end, some of them more than once. */
  #leaving(stack: Frame, { exits }: LexemeTokens, open: Uint32Array | null, home: State['home']): number[] {
    const found: number[] = [];
    for (const { label, nodes } of exits) {
      const after = isOpen(open, label) ? this.#after(stack, label, home) : null;
      if (after === null) continue;
      this.bytes.meter.spend(nodes.length);
      for (const node of nodes) this.#addBelow(node, after, found);
    }
    return found;
  }

  /** What follows a lexeme that has ended with this label; null where nothing can. */
  #after(stack: Frame, label: number, home: State['home']): State | null {
    const steps = this.bytes.machine.after(stack, label).filter((step) => step !== 'end');
    return steps.length === 0 ? null : this.bytes.state(steps, false, home);
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
