// The tokens of a tokenizer as a trie over their bytes, in preorder: a node's subtree is the run of nodes up to its end.

import { BoundedCache } from './bounded-cache.ts';
import { bytesOfSet, type TokenSet } from './token-set.ts';

/** Of the lexemes that many grammars have. */
const MAX_SHARED_BYTES = 64 * 2 ** 20;

/** What a vocabulary can do from a state of a lexeme on. */
export interface LexemeTokens {
  /** Tokens that stay within the lexeme to their end. */
  readonly tokens: TokenSet;
  /** Nodes of the trie at which the lexeme may have ended and tokens go on. */
  readonly exits: Int32Array;
  /** [exits] the label of the text that ended. */
  readonly labels: Int32Array;
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
}

/** By lexeme and state. */
export class LexemeTokensCache extends BoundedCache<string, LexemeTokens> {
  constructor(maxBytes: number) {
    super(maxBytes, ({ tokens, exits, labels }) => bytesOfSet(tokens) + exits.byteLength + labels.byteLength);
  }
}

export class Vocabulary {
  readonly endTokenIds: readonly number[];
  /** Tokens, special ones included: bits of a mask. */
  readonly size: number;
  /** Words of 32 bits that a mask has. */
  readonly maskWords: number;
  /** [nodes] the byte that leads to a node; node 0 is the root. */
  readonly byte: Uint8Array;
  /** [nodes] bytes from the root. */
  readonly depth: Uint16Array;
  /** [nodes] the node after the subtree. */
  readonly end: Int32Array;
  /** [nodes + 1] where the tokens of a node begin among those in order. */
  readonly firstToken: Int32Array;
  /** Token ids in the order of their nodes. */
  readonly tokensInOrder: Int32Array;
  /** Bytes of the longest token. */
  readonly longestToken: number;
  /** Of lexemes that many grammars have. */
  readonly shared = new LexemeTokensCache(MAX_SHARED_BYTES);
  /** By the state of the automaton of quoted text, of which there are few. */
  readonly counted = new Map<string, CountedTokens>();
  readonly #bytes: readonly (Uint8Array | null)[];

  /** @param tokenBytes by token id; null for tokens that are no text, which no constraint allows. */
  constructor(tokenBytes: readonly (Uint8Array | null)[], endTokenIds: readonly number[]) {
    const isEnd = new Set(endTokenIds);
    this.#bytes = tokenBytes.map((bytes, id) =>
      bytes === null || bytes.length === 0 || isEnd.has(id) ? null : bytes,
    );
    this.endTokenIds = endTokenIds;
    this.size = tokenBytes.length;
    this.maskWords = Math.ceil(tokenBytes.length / 32);
    const sorted = this.#bytes.flatMap((bytes, id) =>
      bytes === null
        ? []
        : [{ id, bytes, key: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1') }],
    );
    sorted.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.id - b.id));
    const byte = [0];
    const depth = [0];
    const end = [0];
    const firstToken = [0];
    // The nodes from the root to the token before.
    const path = [0];
    let before: Uint8Array = new Uint8Array(0);
    for (const [i, { bytes }] of sorted.entries()) {
      let common = 0;
      while (common < before.length && bytes[common] === before[common]) common += 1;
      while (path.length > common + 1) end[path.pop()!] = byte.length;
      for (let at = common; at < bytes.length; at += 1) {
        path.push(byte.length);
        byte.push(bytes[at]!);
        depth.push(at + 1);
        end.push(0);
        firstToken.push(i);
      }
      before = bytes;
    }
    for (const node of path) end[node] = byte.length;
    this.byte = Uint8Array.from(byte);
    this.depth = Uint16Array.from(depth);
    this.end = Int32Array.from(end);
    this.firstToken = Int32Array.from([...firstToken, sorted.length]);
    this.tokensInOrder = Int32Array.from(sorted, ({ id }) => id);
    this.longestToken = sorted.reduce((longest, { bytes }) => Math.max(longest, bytes.length), 0);
  }

  /** Null for tokens that are no text. */
  bytesOf(tokenId: number): Uint8Array | null {
    return this.#bytes[tokenId] ?? null;
  }

  /** The child of a node that a byte leads to, -1 where there is none. */
  child(node: number, byte: number): number {
    const end = this.end[node]!;
    for (let child = node + 1; child < end; child = this.end[child]!)
      if (this.byte[child] === byte) return child;
    return -1;
  }
}
