// Which tokens stay within a lexeme from one of its states on, and where in the trie tokens may leave it.

import { type KeyLabels, PLACES, type QuotedText, SHORT_BYTES } from './grammar.ts';
import { type CompiledLexeme, endsCharacter, type Lexer } from './lexer.ts';
import { addTo, clearBit, setBit, type TokenSet, toTokenSet } from './token-set.ts';
import type { CountedTokens, Exits, KnownTokens, LexemeTokens, Vocabulary } from './vocabulary.ts';

/** What a name that may not come costs, in nodes of the trie. */
const NAME_WORK = 10;

/** Tokens of more characters are few. */
const MOST_SHORT = 16;

/** What was found out, and its name, by which whoever needs it pays for it. */
export type Walk = readonly [key: string, tokens: LexemeTokens];

/** Bytes of the tokens that a walk is about. */
interface Lengths {
  readonly min: number;
  readonly max: number;
}

const ALL: Lengths = { min: 1, max: Number.POSITIVE_INFINITY };
const SHORT: Lengths = { min: 1, max: SHORT_BYTES };
const LONG: Lengths = { min: SHORT_BYTES + 1, max: Number.POSITIVE_INFINITY };

export class LexemeWalker {
  readonly #lexer: Lexer;
  readonly #vocabulary: Vocabulary;
  readonly #scratch: Uint32Array;
  readonly #path: Int32Array;
  /** Begins the keys of its own lexemes. */
  readonly #name: string;
  /** Nodes of the trie that were looked at, and what a walk costs besides, in such nodes: of all walks together. */
  numVisited = 0;

  /** @param known by the keys of `walked` */
  constructor(lexer: Lexer, vocabulary: Vocabulary, known: KnownTokens = []) {
    this.#lexer = lexer;
    this.#vocabulary = vocabulary;
    this.#name = `${vocabulary.nameGrammar()} `;
    for (const [key, tokens] of known) vocabulary.own.set(this.#name + key, tokens);
    this.#scratch = new Uint32Array(vocabulary.maskWords);
    this.#path = new Int32Array(vocabulary.trie.longestToken + 1);
  }

  /**
   * Together they have all tokens.
   * @param open the labels that texts may have; null for all. Exits of other labels may be among those returned.
   */
  tokensAt(lexeme: number, state: number, open: Uint32Array | null): readonly Walk[] {
    const compiled = this.#lexer.lexeme(lexeme);
    const { keys, length } = compiled.lexeme;
    if (length !== null) return [this.#counted(compiled, state, length.quoted)];
    const walks = this.walked(lexeme, state, open);
    if (keys === null || open === null) return walks;
    return walks.map(([key, all]) => {
      const work = all.work + keys.names.length * NAME_WORK;
      const tokens = this.#withoutNames(lexeme, state, open, all.tokens);
      return [`${key} but for names ${open.join()}`, { ...all, tokens, work }];
    });
  }

  /** Finds out all about the lexemes that other grammars have too. */
  walkShared(numLexemes: number): void {
    for (let lexeme = 0; lexeme < numLexemes; lexeme += 1) {
      const { sharedName, length, dfa } = this.#lexer.lexeme(lexeme).lexeme;
      if (sharedName === null) continue;
      for (let state = 0; state < dfa.labels.length; state += 1) {
        if (length === null) this.walked(lexeme, state, null);
        else this.#walkedCounting(length.quoted, state);
      }
    }
  }

  /**
   * What is true of the state whichever names are open: its keys are the same for all grammars that have a shared lexeme. Where states
   * are alike, one of them stands for all with those tokens that cannot tell them apart.
   */
  walked(lexeme: number, state: number, open: Uint32Array | null): readonly Walk[] {
    const { alike } = this.#lexer.lexeme(lexeme).lexeme;
    if (alike === null) return [this.#known(lexeme, state, open, ALL)];
    return [this.#known(lexeme, alike[state]!, open, SHORT), this.#known(lexeme, state, open, LONG)];
  }

  #known(lexeme: number, state: number, open: Uint32Array | null, lengths: Lengths): Walk {
    const { sharedName, keys } = this.#lexer.lexeme(lexeme).lexeme;
    const labels = keys === null || open === null ? null : withAllNames(open, keys);
    const which = `${lengths.min}-${lengths.max}`;
    const key = `${sharedName ?? `#${lexeme}`}/${state}/${labels?.join() ?? ''}/${which}`;
    const { shared, own } = this.#vocabulary;
    const known = own.get(this.#name + key) ?? shared.get(key);
    if (known !== undefined) return [key, known];
    const made = this.#walk(lexeme, state, labels, lengths);
    if (sharedName === null) own.set(this.#name + key, made);
    else shared.set(key, made);
    return [key, made];
  }

  #walk(index: number, state: number, open: Uint32Array | null, { min, max }: Lengths): LexemeTokens {
    const { byte, depth, end, below, longest, firstToken, tokensInOrder } = this.#vocabulary.trie;
    const lexeme = this.#lexer.lexeme(index);
    const { classes, numClasses, next, labels } = lexeme.lexeme.dfa;
    const path = this.#path;
    const tokens = this.#scratch;
    tokens.fill(0);
    path[0] = state;
    const { exits, exitLabels } = this.#vocabulary;
    let numExits = 0;
    let numVisited = tokens.length;
    for (let node = 1; node < byte.length; ) {
      numVisited += 1;
      if (longest[node]! < min) {
        node = end[node]!;
        continue;
      }
      const level = depth[node]!;
      const to = next[path[level - 1]! * numClasses + classes[byte[node]!]!]!;
      if (to < 0 || (open !== null && !lexeme.isAlive(to, open))) {
        node = end[node]!;
        continue;
      }
      path[level] = to;
      if (level < min) {
        node += 1;
        continue;
      }
      const staysBelow = longest[node]! <= max && (below[node]! & ~lexeme.kindsKeeping(to)) === 0;
      const last = staysBelow ? end[node]! : node + 1;
      for (let i = firstToken[node]!; i < firstToken[last]!; i += 1) {
        const token = tokensInOrder[i]!;
        tokens[token >>> 5]! |= 1 << (token & 31);
      }
      if (labels[to]! >= 0) {
        numVisited += last - node;
        for (let exit = node; exit < last; exit += 1) {
          if (end[exit] === exit + 1) continue;
          exits[numExits] = exit;
          exitLabels[numExits] = labels[to]!;
          numExits += 1;
        }
      }
      node = level === max ? end[node]! : last;
    }
    this.numVisited += numVisited;
    return {
      tokens: toTokenSet(tokens),
      exits: byLabel(exits.subarray(0, numExits), exitLabels.subarray(0, numExits)),
      work: numVisited,
    };
  }

  /** Of a quoted text whose characters are counted: those tokens of the free one that have few and many enough. */
  #counted(lexeme: CompiledLexeme, state: number, quoted: QuotedText): Walk {
    const { inChar, left, missing } = lexeme.counts(state);
    const walked = this.#walkedCounting(quoted, inChar);
    // Where no token is long enough for a bound, it does not matter what it is.
    const most = Math.min(left, walked.mostChars);
    const least = Math.min(Math.max(missing, 0), walked.mostChars + 1);
    const key = `counted ${quoted.name}/${inChar}/${least}/${most}`;
    const known = this.#vocabulary.own.get(key);
    if (known !== undefined) return [key, known];
    const fits = (chars: number): boolean => chars >= least && chars <= most;
    this.#scratch.set(walked.upTo[Math.min(most, MOST_SHORT)]!);
    for (const { token, needed } of walked.long) if (needed <= most) setBit(this.#scratch, token);
    for (const { token, chars } of walked.ending) if (fits(chars)) setBit(this.#scratch, token);
    const nodes = walked.exits.filter((_, i) => fits(walked.exitChars[i]!));
    const work = walked.exits.length + walked.ending.length;
    const made = { tokens: toTokenSet(this.#scratch), exits: [{ label: 0, nodes }], work };
    this.#vocabulary.own.set(key, made);
    return [key, made];
  }

  #walkedCounting(quoted: QuotedText, state: number): CountedTokens {
    const { counted } = this.#vocabulary;
    const key = `${quoted.name}/${state}`;
    const walked = counted.get(key) ?? this.#walkCounting(quoted, state);
    counted.set(key, walked);
    return walked;
  }

  #walkCounting(quoted: QuotedText, state: number): CountedTokens {
    const { byte, depth, end, firstToken, tokensInOrder } = this.#vocabulary.trie;
    const { classes, numClasses, next, labels } = quoted.dfa;
    const path = [state];
    const chars = [0];
    const upTo = Array.from({ length: MOST_SHORT + 1 }, () => new Uint32Array(this.#vocabulary.maskWords));
    const long: { token: number; needed: number }[] = [];
    const ending: { token: number; chars: number }[] = [];
    const exits: number[] = [];
    const exitChars: number[] = [];
    let mostChars = 0;
    for (let node = 1; node < byte.length; ) {
      const level = depth[node]!;
      const from = path[level - 1]!;
      const to = next[from * numClasses + classes[byte[node]!]!]!;
      if (to < 0) {
        node = end[node]!;
        continue;
      }
      const place = quoted.places[to];
      const count = chars[level - 1]! + (endsCharacter(quoted, from, to) ? 1 : 0);
      for (let i = firstToken[node]!; i < firstToken[node + 1]!; i += 1) {
        const token = tokensInOrder[i]!;
        // A character that has begun needs its place.
        const needed = place === PLACES.within ? count + 1 : count;
        mostChars = Math.max(mostChars, needed);
        if (place === PLACES.after) ending.push({ token, chars: count });
        else if (needed > MOST_SHORT) long.push({ token, needed });
        else setBit(upTo[needed]!, token);
      }
      if (labels[to]! >= 0 && end[node]! > node + 1) {
        exits.push(node);
        exitChars.push(count);
        mostChars = Math.max(mostChars, count);
      }
      path[level] = to;
      chars[level] = count;
      node += 1;
    }
    for (const [room, words] of upTo.entries()) {
      const fewer = upTo[room - 1];
      if (fewer !== undefined) for (let i = 0; i < words.length; i += 1) words[i]! |= fewer[i]!;
    }
    return {
      upTo,
      long,
      ending,
      exits: new Int32Array(exits),
      exitChars: new Int32Array(exitChars),
      mostChars,
    };
  }

  /** Takes away what can only become a name that must not come; other keys may still come in any number. */
  #withoutNames(index: number, state: number, open: Uint32Array, all: TokenSet): TokenSet {
    const lexeme = this.#lexer.lexeme(index);
    const { names } = lexeme.lexeme.keys!;
    this.#scratch.fill(0);
    addTo(this.#scratch, all);
    for (const [label, name] of names.entries()) {
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

function byLabel(nodes: Int32Array, labels: Int32Array): Exits[] {
  const [first] = labels;
  if (first === undefined) return [];
  if (labels.every((label) => label === first)) return [{ label: first, nodes: nodes.slice() }];
  return [...new Set(labels)].map((label) => ({ label, nodes: nodes.filter((_, i) => labels[i] === label) }));
}

/** The same labels, and all names; null where those are all that there are. */
function withAllNames(open: Uint32Array, { names, numLabels }: KeyLabels): Uint32Array | null {
  const all = open.slice();
  for (let name = 0; name < names.length; name += 1) setBit(all, name);
  for (let label = names.length; label < numLabels; label += 1)
    if (((all[label >>> 5]! >>> (label & 31)) & 1) === 0) return all;
  return null;
}
