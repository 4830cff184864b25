// Walks the lexemes of a grammar. A state is the automaton's, or with a length to keep, that and the characters so far.

import { kindsKeeping } from './byte-kinds.ts';
import { type Counting, type Grammar, type Lexeme, PLACES, type QuotedText } from './grammar.ts';

export class Lexer {
  readonly #lexemes: readonly CompiledLexeme[];

  constructor(grammar: Grammar) {
    this.#lexemes = grammar.lexemes.map((lexeme) => new CompiledLexeme(lexeme));
  }

  lexeme(index: number): CompiledLexeme {
    return this.#lexemes[index]!;
  }
}

export class CompiledLexeme {
  readonly lexeme: Lexeme;
  readonly #classes: Uint8Array;
  readonly #numClasses: number;
  readonly #next: Int32Array;
  readonly #numStates: number;
  /** [states, words] labels of the texts that a state leads to. */
  readonly #reach: Uint32Array | null;
  readonly #words: number;
  /** [states] as `kindsKeeping`; -1 where that is not known yet. */
  readonly #keeping: Int32Array;

  constructor(lexeme: Lexeme) {
    const { dfa, keys } = lexeme;
    this.lexeme = lexeme;
    this.#classes = dfa.classes;
    this.#numClasses = dfa.numClasses;
    this.#next = dfa.next;
    this.#numStates = dfa.labels.length;
    this.#keeping = new Int32Array(dfa.labels.length).fill(-1);
    this.#words = keys === null ? 0 : Math.ceil(keys.numLabels / 32);
    this.#reach = keys === null ? null : reachableLabels(lexeme, this.#words);
  }

  /** @param open the labels that count; null for all. @returns -1 where no text goes on like this. */
  step(state: number, byte: number, open: Uint32Array | null): number {
    if (this.lexeme.length !== null) return this.#stepCounting(state, byte, this.lexeme.length);
    const next = this.#next[state * this.#numClasses + this.#classes[byte]!]!;
    return next < 0 || open === null || this.#leadsTo(next, open) ? next : -1;
  }

  /** The label of the text that may end here, -1 where it may not. */
  label(state: number): number {
    return this.lexeme.dfa.labels[this.lexeme.length === null ? state : state % this.#numStates]!;
  }

  /** The kinds of text that leave a state of the automaton as it is. */
  kindsKeeping(state: number): number {
    const known = this.#keeping[state]!;
    if (known !== -1) return known;
    const kinds = kindsKeeping(this.lexeme.dfa, state);
    this.#keeping[state] = kinds;
    return kinds;
  }

  isAlive(state: number, open: Uint32Array | null): boolean {
    return open === null || this.#leadsTo(state, open);
  }

  /** Of a state that counts: the automaton's own, how many characters may still come and how many must. */
  counts(state: number): { inChar: number; left: number; missing: number } {
    const { min, max } = this.lexeme.length!;
    const inChar = state % this.#numStates;
    const count = (state - inChar) / this.#numStates;
    return { inChar, left: max === null ? Number.POSITIVE_INFINITY : max - count, missing: min - count };
  }

  #stepCounting(state: number, byte: number, { min, max, quoted }: Counting): number {
    const before = state % this.#numStates;
    const count = (state - before) / this.#numStates;
    const after = this.#next[before * this.#numClasses + this.#classes[byte]!]!;
    if (after < 0) return -1;
    const { places } = quoted;
    if (places[before] === PLACES.between) {
      const isQuote = places[after] === PLACES.after;
      if (isQuote ? count < min : count === max) return -1;
    }
    const isCharEnd = endsCharacter(quoted, before, after);
    return after + this.#numStates * (isCharEnd && (max !== null || count < min) ? count + 1 : count);
  }

  #leadsTo(state: number, open: Uint32Array): boolean {
    for (let i = 0; i < this.#words; i += 1)
      if ((this.#reach![state * this.#words + i]! & open[i]!) !== 0) return true;
    return false;
  }
}

/** A step from one state of quoted text to another is the last of a character. */
export function endsCharacter({ places }: QuotedText, from: number, to: number): boolean {
  return places[to] === PLACES.between && places[from] !== PLACES.before;
}

function reachableLabels({ dfa }: Lexeme, words: number): Uint32Array {
  const { labels, next, numClasses } = dfa;
  const reach = new Uint32Array(labels.length * words);
  const sources: number[][] = Array.from(labels, () => []);
  for (const [state] of labels.entries()) {
    for (const target of new Set(next.subarray(state * numClasses, (state + 1) * numClasses)))
      if (target >= 0 && target !== state) sources[target]!.push(state);
  }
  const queue: number[] = [];
  for (const [state, label] of labels.entries()) {
    if (label < 0) continue;
    reach[state * words + (label >>> 5)]! |= 1 << (label & 31);
    queue.push(state);
  }
  while (queue.length > 0) {
    const state = queue.pop()!;
    for (const source of sources[state]!) {
      let grew = false;
      for (let i = 0; i < words; i += 1) {
        const before = reach[source * words + i]!;
        reach[source * words + i]! |= reach[state * words + i]!;
        grew ||= reach[source * words + i] !== before;
      }
      if (grew) queue.push(source);
    }
  }
  return reach;
}
