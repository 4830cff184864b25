// Which tokens stay within a lexeme from one of its states on, and where in the trie tokens may leave it.

import { BoundedCache } from './bounded-cache.ts';
import type { Lexer } from './lexer.ts';
import { addTo, bytesOfSet, clearBit, setBit, type TokenSet, toTokenSet } from './token-set.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Of the walks of one grammar. */
const MAX_BYTES = 32 * 2 ** 20;

export interface LexemeTokens {
  readonly tokens: TokenSet;
  /** Nodes of the trie at which the lexeme may have ended and tokens go on. */
  readonly exits: Int32Array;
  /** [exits] the label of the text that ended. */
  readonly labels: Int32Array;
}

export class LexemeWalker {
  readonly #lexer: Lexer;
  readonly #vocabulary: Vocabulary;
  readonly #scratch: Uint32Array;
  readonly #path: Int32Array;
  readonly #cache = new BoundedCache<string, LexemeTokens>(
    MAX_BYTES,
    ({ tokens, exits, labels }) => bytesOfSet(tokens) + exits.byteLength + labels.byteLength,
  );

  constructor(lexer: Lexer, vocabulary: Vocabulary) {
    this.#lexer = lexer;
    this.#vocabulary = vocabulary;
    this.#scratch = new Uint32Array(vocabulary.maskWords);
    this.#path = new Int32Array(vocabulary.longestToken + 1);
  }

  /** @param open the labels that texts may have; null for all. Exits of other labels may be among those returned. */
  tokensAt(lexeme: number, state: number, open: Uint32Array | null): LexemeTokens {
    const compiled = this.#lexer.lexeme(lexeme);
    const { keys } = compiled.lexeme;
    if (keys === null)
      return this.#cached(lexeme, compiled.representative(state, this.#vocabulary.longestToken));
    if (open === null || !areAllOpen(open, keys.names.length, keys.numLabels))
      return this.#walk(lexeme, state, open);
    const all = this.#cached(lexeme, state);
    return { ...all, tokens: this.#withoutNames(lexeme, state, open, all.tokens) };
  }

  #cached(lexeme: number, state: number): LexemeTokens {
    const key = `${lexeme}/${state}`;
    const known = this.#cache.get(key);
    if (known !== undefined) return known;
    const made = this.#walk(lexeme, state, null);
    this.#cache.set(key, made);
    return made;
  }

  #walk(index: number, state: number, open: Uint32Array | null): LexemeTokens {
    const { byte, depth, end, firstToken, tokensInOrder } = this.#vocabulary;
    const lexeme = this.#lexer.lexeme(index);
    const path = this.#path;
    path[0] = state;
    this.#scratch.fill(0);
    const exits: number[] = [];
    const labels: number[] = [];
    for (let node = 1; node < byte.length; ) {
      const level = depth[node]!;
      const next = lexeme.step(path[level - 1]!, byte[node]!, open);
      if (next < 0) {
        node = end[node]!;
        continue;
      }
      for (let i = firstToken[node]!; i < firstToken[node + 1]!; i += 1)
        setBit(this.#scratch, tokensInOrder[i]!);
      const label = lexeme.label(next);
      if (label >= 0 && end[node]! > node + 1) {
        exits.push(node);
        labels.push(label);
      }
      path[level] = next;
      node += 1;
    }
    return {
      tokens: toTokenSet(this.#scratch),
      exits: Int32Array.from(exits),
      labels: Int32Array.from(labels),
    };
  }

  /** Takes away what can only become a name that must not come; other keys may still come in any number. */
  #withoutNames(index: number, state: number, open: Uint32Array, all: TokenSet): TokenSet {
    const lexeme = this.#lexer.lexeme(index);
    this.#scratch.fill(0);
    addTo(this.#scratch, all);
    for (const [label, name] of lexeme.lexeme.keys!.names.entries()) {
      if (((open[label >>> 5]! >>> (label & 31)) & 1) === 1) continue;
      let at = 0;
      for (let i = 0; i <= name.length && at >= 0; i += 1) {
        if (at === state) this.#clearDead(lexeme, state, open, name.subarray(i));
        at = i === name.length ? -1 : lexeme.step(at, name[i]!, null);
      }
    }
    return toTokenSet(this.#scratch);
  }

  #clearDead(
    lexeme: { step(state: number, byte: number, open: Uint32Array | null): number },
    from: number,
    open: Uint32Array,
    rest: Uint8Array,
  ): void {
    const { end, firstToken, tokensInOrder } = this.#vocabulary;
    let node = 0;
    let state = from;
    for (const byte of rest) {
      node = this.#vocabulary.child(node, byte);
      if (node < 0) return;
      state = lexeme.step(state, byte, open);
      if (state >= 0) continue;
      for (let i = firstToken[node]!; i < firstToken[end[node]!]!; i += 1)
        clearBit(this.#scratch, tokensInOrder[i]!);
      return;
    }
  }
}

/** All classes of keys that are no names. */
function areAllOpen(open: Uint32Array, numNames: number, numLabels: number): boolean {
  if (numLabels === numNames) return false;
  for (let label = numNames; label < numLabels; label += 1)
    if (((open[label >>> 5]! >>> (label & 31)) & 1) === 0) return false;
  return true;
}
