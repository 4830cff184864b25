// Which tokens stay within a lexeme from one of its states on, and where in the trie tokens may leave it.

import { BEFORE_QUOTE, BETWEEN_CHARS, type Lexer } from './lexer.ts';
import { addTo, clearBit, setBit, type TokenSet, toTokenSet } from './token-set.ts';
import { type CountedTokens, type LexemeTokens, LexemeTokensCache, type Vocabulary } from './vocabulary.ts';

/** Of the walks of one grammar. */
const MAX_BYTES = 32 * 2 ** 20;

/** Tokens of more characters are few. */
const MOST_SHORT = 16;

export class LexemeWalker {
  readonly #lexer: Lexer;
  readonly #vocabulary: Vocabulary;
  readonly #scratch: Uint32Array;
  readonly #path: Int32Array;
  readonly #cache = new LexemeTokensCache(MAX_BYTES);

  constructor(lexer: Lexer, vocabulary: Vocabulary) {
    this.#lexer = lexer;
    this.#vocabulary = vocabulary;
    this.#scratch = new Uint32Array(vocabulary.maskWords);
    this.#path = new Int32Array(vocabulary.trie.longestToken + 1);
  }

  /** @param open the labels that texts may have; null for all. Exits of other labels may be among those returned. */
  tokensAt(lexeme: number, state: number, open: Uint32Array | null): LexemeTokens {
    const compiled = this.#lexer.lexeme(lexeme);
    const { keys } = compiled.lexeme;
    if (compiled.lexeme.length !== null) return this.#counted(lexeme, state);
    if (keys === null) return this.#cached(lexeme, state);
    if (open === null || !areAllOpen(open, keys.names.length, keys.numLabels))
      return this.#walk(lexeme, state, open);
    const all = this.#cached(lexeme, state);
    return { ...all, tokens: this.#withoutNames(lexeme, state, open, all.tokens) };
  }

  #cached(lexeme: number, state: number): LexemeTokens {
    const { sharedName } = this.#lexer.lexeme(lexeme).lexeme;
    const cache = sharedName === null ? this.#cache : this.#vocabulary.shared;
    const key = `${sharedName ?? lexeme}/${state}`;
    const known = cache.get(key);
    if (known !== undefined) return known;
    const made = this.#walk(lexeme, state, null);
    cache.set(key, made);
    return made;
  }

  #walk(index: number, state: number, open: Uint32Array | null): LexemeTokens {
    const { byte, depth, end, below, firstToken, tokensInOrder } = this.#vocabulary.trie;
    const lexeme = this.#lexer.lexeme(index);
    const { classes, numClasses, next, labels } = lexeme.lexeme.dfa;
    const path = this.#path;
    const tokens = this.#scratch;
    tokens.fill(0);
    path[0] = state;
    const { exits, exitLabels } = this.#vocabulary;
    let numExits = 0;
    for (let node = 1; node < byte.length; ) {
      const level = depth[node]!;
      const to = next[path[level - 1]! * numClasses + classes[byte[node]!]!]!;
      if (to < 0 || (open !== null && !lexeme.isAlive(to, open))) {
        node = end[node]!;
        continue;
      }
      const staysBelow = (below[node]! & ~lexeme.kindsKeeping(to)) === 0;
      const last = staysBelow ? end[node]! : node + 1;
      for (let i = firstToken[node]!; i < firstToken[last]!; i += 1) {
        const token = tokensInOrder[i]!;
        tokens[token >>> 5]! |= 1 << (token & 31);
      }
      if (labels[to]! >= 0) {
        for (let exit = node; exit < last; exit += 1) {
          if (end[exit] === exit + 1) continue;
          exits[numExits] = exit;
          exitLabels[numExits] = labels[to]!;
          numExits += 1;
        }
      }
      path[level] = to;
      node = last;
    }
    return {
      tokens: toTokenSet(tokens),
      exits: exits.slice(0, numExits),
      labels: exitLabels.slice(0, numExits),
    };
  }

  /** Of a quoted text whose characters are counted: those tokens of the free one that have few and many enough. */
  #counted(index: number, state: number): LexemeTokens {
    const lexeme = this.#lexer.lexeme(index);
    const { inChar, left, missing } = lexeme.counts(state);
    const key = `counted ${inChar}`;
    const walked = this.#vocabulary.counted.get(key) ?? this.#walkCounting(index, inChar);
    this.#vocabulary.counted.set(key, walked);
    this.#scratch.set(walked.upTo[Math.min(left, MOST_SHORT)]!);
    for (const { token, needed } of walked.long) if (needed <= left) setBit(this.#scratch, token);
    for (const { token, chars } of walked.ending)
      if (chars <= left && chars >= missing) setBit(this.#scratch, token);
    const fits = walked.exitChars.map((chars) => (chars <= left && chars >= missing ? 1 : 0));
    const exits = walked.exits.filter((_, i) => fits[i] === 1);
    return { tokens: toTokenSet(this.#scratch), exits, labels: new Int32Array(exits.length) };
  }

  #walkCounting(index: number, state: number): CountedTokens {
    const { byte, depth, end, firstToken, tokensInOrder } = this.#vocabulary.trie;
    const { classes, numClasses, next, labels } = this.#lexer.lexeme(index).lexeme.dfa;
    const path = [state];
    const chars = [0];
    const upTo = Array.from({ length: MOST_SHORT + 1 }, () => new Uint32Array(this.#vocabulary.maskWords));
    const long: { token: number; needed: number }[] = [];
    const ending: { token: number; chars: number }[] = [];
    const exits: number[] = [];
    const exitChars: number[] = [];
    for (let node = 1; node < byte.length; ) {
      const level = depth[node]!;
      const from = path[level - 1]!;
      const to = next[from * numClasses + classes[byte[node]!]!]!;
      if (to < 0) {
        node = end[node]!;
        continue;
      }
      const hasEnded = labels[to]! >= 0;
      const count = chars[level - 1]! + (to === BETWEEN_CHARS && from !== BEFORE_QUOTE ? 1 : 0);
      for (let i = firstToken[node]!; i < firstToken[node + 1]!; i += 1) {
        const token = tokensInOrder[i]!;
        // A character that has begun needs its place.
        const needed = to === BETWEEN_CHARS ? count : count + 1;
        if (hasEnded) ending.push({ token, chars: count });
        else if (needed > MOST_SHORT) long.push({ token, needed });
        else setBit(upTo[needed]!, token);
      }
      if (hasEnded && end[node]! > node + 1) {
        exits.push(node);
        exitChars.push(count);
      }
      path[level] = to;
      chars[level] = count;
      node += 1;
    }
    for (const [room, words] of upTo.entries()) {
      const fewer = upTo[room - 1];
      if (fewer !== undefined) for (let i = 0; i < words.length; i += 1) words[i]! |= fewer[i]!;
    }
    return { upTo, long, ending, exits: new Int32Array(exits), exitChars: new Int32Array(exitChars) };
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
    const { end, firstToken, tokensInOrder } = this.#vocabulary.trie;
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
