// The tokens of a tokenizer as a trie over their bytes, in preorder: a node's subtree is the run of nodes up to its end. It is
// plain arrays, so that one thread can build it and others only look at it.

import { afterByte, BROKEN, kindOf } from './byte-kinds.ts';
import type { TokenTexts } from './token-texts.ts';

export interface TokenTrie extends TokenTexts {
  /** [nodes] the byte that leads to a node; node 0 is the root. */
  readonly byte: Uint8Array;
  /** [nodes] bytes from the root. */
  readonly depth: Int32Array;
  /** [nodes] the node after the subtree. */
  readonly end: Int32Array;
  /** [nodes] the kinds of bytes (`byte-kinds.ts`) below a node. */
  readonly below: Uint32Array;
  /** [nodes] bytes of the longest token that begins like this. */
  readonly longest: Int32Array;
  /** [nodes + 1] where the tokens of a node begin among those in order. */
  readonly firstToken: Int32Array;
  /** Token ids in the order of their nodes. */
  readonly tokensInOrder: Int32Array;
  /** Bytes of the longest token. */
  readonly longestToken: number;
}

export function buildTokenTrie(texts: TokenTexts): TokenTrie {
  const tokensInOrder = sortedTokens(texts);
  const nodes = buildNodes(texts, tokensInOrder);
  return {
    ...texts,
    ...nodes,
    below: kindsBelow(nodes),
    longest: longestBelow(nodes),
    tokensInOrder,
    longestToken: tokensInOrder.reduce(
      (longest, id) => Math.max(longest, texts.starts[id + 1]! - texts.starts[id]!),
      0,
    ),
  };
}

/** By their bytes; those that are no text are left out. */
function sortedTokens({ bytes, starts, endTokenIds }: TokenTexts): Int32Array {
  const size = starts.length - 1;
  const isEnd = new Set(endTokenIds);
  // The first bytes as a number decide most comparisons.
  const prefixes = new Uint32Array(size);
  const ids = new Int32Array(size);
  let count = 0;
  for (let id = 0; id < size; id += 1) {
    const [start, end] = [starts[id]!, starts[id + 1]!];
    if (start === end || isEnd.has(id)) continue;
    for (let at = start; at < start + 4; at += 1)
      prefixes[id] = (prefixes[id]! << 8) | (at < end ? bytes[at]! : 0);
    ids[count] = id;
    count += 1;
  }
  return ids.subarray(0, count).sort((a, b) => prefixes[a]! - prefixes[b]! || compare(bytes, starts, a, b));
}

function compare(bytes: Uint8Array, starts: Int32Array, a: number, b: number): number {
  const [startA, startB] = [starts[a]!, starts[b]!];
  const [lengthA, lengthB] = [starts[a + 1]! - startA, starts[b + 1]! - startB];
  const shorter = Math.min(lengthA, lengthB);
  for (let i = 0; i < shorter; i += 1) {
    const difference = bytes[startA + i]! - bytes[startB + i]!;
    if (difference !== 0) return difference;
  }
  return lengthA - lengthB || a - b;
}

type Nodes = Pick<TokenTrie, 'byte' | 'depth' | 'end' | 'firstToken'>;

function buildNodes({ bytes, starts }: TokenTexts, tokensInOrder: Int32Array): Nodes {
  const most = bytes.length + 1;
  const byte = new Uint8Array(most);
  const depth = new Int32Array(most);
  const end = new Int32Array(most);
  const firstToken = new Int32Array(most + 1);
  let size = 1;
  // The nodes from the root to the token before, whose bytes are those from `before` on.
  const path = [0];
  let before = 0;
  for (let i = 0; i < tokensInOrder.length; i += 1) {
    const id = tokensInOrder[i]!;
    const start = starts[id]!;
    const length = starts[id + 1]! - start;
    const longest = Math.min(length, path.length - 1);
    let common = 0;
    while (common < longest && bytes[before + common] === bytes[start + common]) common += 1;
    while (path.length > common + 1) end[path.pop()!] = size;
    for (let at = common; at < length; at += 1) {
      path.push(size);
      byte[size] = bytes[start + at]!;
      depth[size] = at + 1;
      firstToken[size] = i;
      size += 1;
    }
    before = start;
  }
  for (const node of path) end[node] = size;
  firstToken[size] = tokensInOrder.length;
  return {
    byte: byte.slice(0, size),
    depth: depth.slice(0, size),
    end: end.slice(0, size),
    firstToken: firstToken.slice(0, size + 1),
  };
}

/** From the leaves on: the nodes of a subtree come after its own. */
function kindsBelow({ byte, depth, end, firstToken }: Nodes): Uint32Array {
  const size = byte.length;
  const own = new Uint32Array(size);
  const parent = new Int32Array(size);
  // Where the bytes of each node end in a character.
  const place = new Int16Array(size);
  const path = [0];
  for (let node = 1; node < size; node += 1) {
    const level = depth[node]!;
    path[level] = node;
    parent[node] = path[level - 1]!;
    place[node] = afterByte(place[parent[node]!]!, byte[node]!);
    own[node] = kindOf(byte[node]!, place[node]!, firstToken[node]! < firstToken[node + 1]!);
  }
  const below = new Uint32Array(size);
  for (let node = size - 1; node > 0; node -= 1) {
    below[parent[node]!]! |= own[node]! | below[node]!;
    // What is below a part of a character goes on with another part.
    if (place[node] !== 0 && end[node]! > node + 1) below[node]! |= BROKEN;
  }
  return below;
}

/** Every leaf is the end of a token. */
function longestBelow({ depth, end }: Nodes): Int32Array {
  const longest = depth.slice();
  for (let node = depth.length - 1; node >= 0; node -= 1)
    for (let child = node + 1; child < end[node]!; child = end[child]!)
      longest[node] = Math.max(longest[node]!, longest[child]!);
  return longest;
}
