// A vocabulary as constraints see it: its trie, and what is known of lexemes that many grammars have.

import { LruCache } from '../util/lru-cache.ts';
import type { Configuration } from './stack.ts';
import { bytesOfSet, type TokenSet } from './token-set.ts';
import type { TokenTrie } from './token-trie.ts';

/** Of the lexemes that many grammars have, and of those of all grammars together. */
const MAX_SHARED_BYTES = 32 * 2 ** 20;
const MAX_OWN_BYTES = 32 * 2 ** 20;
/** Of the masks of all grammars. */
const MAX_MASK_BYTES = 64 * 2 ** 20;
/** What an entry takes besides its sets, about. */
const ENTRY_BYTES = 400;

/** What a vocabulary can do from a state of a lexeme on. */
export interface LexemeTokens {
  /** Tokens that stay within the lexeme to their end. */
  readonly tokens: TokenSet;
  /** Where the lexeme may have ended and tokens go on, by the label of the text that ended. */
  readonly exits: readonly Exits[];
  /** What finding this out costs, in nodes of the trie that are looked at. */
  readonly work: number;
}

export interface Exits {
  readonly label: number;
  /** Of the trie. */
  readonly nodes: Int32Array;
}

/** What a vocabulary can do from a point in a quoted text on, with the characters that it takes. */
export interface CountedTokens {
  /** By number of characters that have room: tokens that do not end the text. */
  readonly upTo: readonly Uint32Array[];
  /** Those that need more room than that. */
  readonly long: readonly { readonly token: number; readonly needed: number }[];
  /** Tokens that end the text, after so many characters. */
  readonly ending: readonly { readonly token: number; readonly chars: number }[];
  readonly exits: Int32Array;
  /** [exits] characters before the end of the text. */
  readonly exitChars: Int32Array;
  /** Most characters that a token takes, ends of the text among them. */
  readonly mostChars: number;
}

/** The tokens that may come at one point: two sets, since the first is the same at all points in the state of a lexeme. */
export interface PointTokens {
  /** They stay within the lexeme to their end. */
  readonly within: TokenSet;
  /** They leave it. */
  readonly leaving: TokenSet;
}

/** By the keys of walks (`LexemeWalker.walked`). */
export type KnownTokens = readonly (readonly [key: string, tokens: LexemeTokens])[];

/** By lexeme and state. */
export class LexemeTokensCache extends LruCache<string, LexemeTokens> {
  constructor(maxBytes: number) {
    super(maxBytes, bytesOfTokens);
  }
}

export function bytesOfTokens({ tokens, exits }: LexemeTokens): number {
  return exits.reduce((sum, { nodes }) => sum + nodes.byteLength, ENTRY_BYTES + bytesOfSet(tokens));
}

/** A vocabulary as plain data: its trie, and what was found out beforehand. */
export interface PreparedVocabulary {
  readonly trie: TokenTrie;
  readonly known: KnownTokens;
  /** By the automaton of quoted text and its state. */
  readonly knownCounted: readonly (readonly [key: string, tokens: CountedTokens])[];
}

export class Vocabulary {
  readonly trie: TokenTrie;
  readonly endTokenIds: readonly number[];
  /** Tokens, special ones included: bits of a mask. */
  readonly size: number;
  /** Words of 32 bits that a mask has. */
  readonly maskWords: number;
  /** Of lexemes that many grammars have. */
  readonly shared = new LexemeTokensCache(MAX_SHARED_BYTES);
  /** Of each grammar's own lexemes. */
  readonly own = new LexemeTokensCache(MAX_OWN_BYTES);
  /** Of all grammars. */
  readonly masks = new LruCache<Configuration, PointTokens>(
    MAX_MASK_BYTES,
    ({ within, leaving }) => ENTRY_BYTES + bytesOfSet(within) + bytesOfSet(leaving),
  );
  #numGrammars = 0;
  /** By the automaton of quoted text and its state, of which there are few. */
  readonly counted: Map<string, CountedTokens>;
  /** [nodes] of the walk that is under way. */
  readonly exits: Int32Array;
  /** [nodes] the label of each of these exits. */
  readonly exitLabels: Int32Array;
  readonly #isEnd: ReadonlySet<number>;

  constructor({ trie, known, knownCounted }: PreparedVocabulary) {
    for (const [key, tokens] of known) this.shared.set(key, tokens);
    this.counted = new Map(knownCounted);
    this.trie = trie;
    this.endTokenIds = trie.endTokenIds;
    this.size = trie.starts.length - 1;
    this.maskWords = Math.ceil(this.size / 32);
    this.exits = new Int32Array(trie.byte.length);
    this.exitLabels = new Int32Array(trie.byte.length);
    this.#isEnd = new Set(trie.endTokenIds);
  }

  /** Tells the lexemes of one grammar from those of others. */
  nameGrammar(): number {
    this.#numGrammars += 1;
    return this.#numGrammars;
  }

  /** Null for tokens that are no text. */
  bytesOf(tokenId: number): Uint8Array | null {
    const { bytes, starts } = this.trie;
    if (tokenId < 0 || tokenId >= this.size || starts[tokenId] === starts[tokenId + 1]) return null;
    return this.#isEnd.has(tokenId) ? null : bytes.subarray(starts[tokenId], starts[tokenId + 1]);
  }

  /** The child of a node that a byte leads to, -1 where there is none. */
  child(node: number, byte: number): number {
    const { byte: bytes, end: ends } = this.trie;
    const end = ends[node]!;
    for (let child = node + 1; child < end; child = ends[child]!) if (bytes[child] === byte) return child;
    return -1;
  }
}
