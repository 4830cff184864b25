// What is found out about a grammar where it is compiled: the tokens of the states of its lexemes that a text meets first. The
// thread that needs masks then seldom walks the whole trie while others wait for it.

import { type Grammar, type Lexeme, UNREACHABLE } from './grammar.ts';
import { LexemeWalker } from './lexeme-tokens.ts';
import { Lexer } from './lexer.ts';
import type { Dfa } from './regular/dfa.ts';
import { setBit } from './token-set.ts';
import {
  bytesOfTokens,
  type KnownTokens,
  type LexemeTokens,
  type PreparedVocabulary,
  Vocabulary,
} from './vocabulary.ts';

/** Nodes of the trie that are looked at for one grammar, some 7 ns each. */
const MAX_VISITED = 1_500_000;
/** Of what is found out about one grammar. */
const MAX_BYTES = 4 * 2 ** 20;

/** A grammar as plain data, with what is known of its lexemes beyond what the vocabulary was prepared with. */
export interface PreparedGrammar {
  readonly grammar: Grammar;
  readonly known: KnownTokens;
}

export function prepareGrammar(grammar: Grammar, prepared: PreparedVocabulary): PreparedGrammar {
  const walker = new LexemeWalker(new Lexer(grammar), new Vocabulary(prepared));
  const before = new Set(prepared.known.map(([key]) => key));
  const known = new Map<string, LexemeTokens>();
  let bytes = 0;
  for (const { lexeme, state, open } of statesInOrder(grammar)) {
    for (const [key, tokens] of walker.walked(lexeme, state, open)) {
      if (known.has(key) || before.has(key)) continue;
      bytes += bytesOfTokens(tokens);
      if (bytes <= MAX_BYTES) known.set(key, tokens);
    }
    if (walker.numVisited > MAX_VISITED || bytes > MAX_BYTES) break;
  }
  return { grammar, known: [...known] };
}

interface LexemeState {
  readonly lexeme: number;
  readonly state: number;
  /** Labels that may come; null for all. */
  readonly open: Uint32Array | null;
}

/** The first state of each lexeme, then the second ones, and so on. */
function* statesInOrder(grammar: Grammar): Generator<LexemeState> {
  const lexemes = grammar.lexemes.flatMap((lexeme, index) =>
    // Counted characters are found out when the vocabulary is made ready.
    lexeme.length === null
      ? [{ index, states: nearestFirst(lexeme.dfa), open: openLabels(grammar, index, lexeme) }]
      : [],
  );
  const most = Math.max(0, ...lexemes.map(({ states }) => states.length));
  for (let place = 0; place < most; place += 1)
    for (const { index, states, open } of lexemes)
      if (place < states.length) yield { lexeme: index, state: states[place]!, open };
}

/** All states, by the length of the shortest text that leads to them. */
function nearestFirst({ next, numClasses }: Dfa): readonly number[] {
  const states = new Set([0]);
  // A set that grows while it is read.
  for (const state of states)
    for (let at = state * numClasses; at < (state + 1) * numClasses; at += 1)
      if (next[at]! >= 0) states.add(next[at]!);
  return [...states];
}

/** The labels that keys may have where all values fit. */
function openLabels({ nodes, heights }: Grammar, index: number, { keys }: Lexeme): Uint32Array | null {
  const node = nodes.find((one) => one.kind === 'object' && one.key === index);
  if (keys === null || node?.kind !== 'object') return null;
  const open = new Uint32Array(Math.ceil(keys.numLabels / 32));
  for (const [label, value] of node.values.entries()) if (heights[value]! < UNREACHABLE) setBit(open, label);
  return open;
}
