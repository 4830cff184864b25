// A compiled constraint: a stack machine as plain data. Texts without nesting are lexemes, automata over bytes; what nests
// are nodes, whose frames on the stack carry what a lexeme cannot know: which keys an object has, how many items an array.

import type { Dfa } from './regular/dfa.ts';

export interface Grammar {
  readonly lexemes: readonly Lexeme[];
  readonly nodes: readonly GrammarNode[];
  /** [nodes] levels of the stack that the node needs at least. */
  readonly heights: readonly number[];
  /** The node that is the whole text. */
  readonly root: number;
  readonly maxDepth: number;
}

export interface Lexeme {
  readonly dfa: Dfa;
  /** The characters of a quoted text that is free but for its length; null where the automaton says all. */
  readonly length: Counting | null;
  /** Of the keys of an object; null where it does not matter which text it was. */
  readonly keys: KeyLabels | null;
  /** The same in all grammars that have a lexeme of this name; null for one of its own. */
  readonly sharedName: string | null;
  /**
   * [states] the first state from which texts of up to `SHORT_BYTES` bytes are the same, which those that count repetitions often are;
   * null where no two states are alike, or nobody has looked.
   */
  readonly alike: Int32Array | null;
}

/** Tokens of more bytes are few. */
export const SHORT_BYTES = 24;

/** `max` null: without end. */
export interface Counting {
  readonly min: number;
  readonly max: number | null;
  readonly quoted: QuotedText;
}

/** An automaton of free text in quotes, in which the lexer can count characters. */
export interface QuotedText {
  readonly dfa: Dfa;
  /** [states] one of `PLACES` each. */
  readonly places: Uint8Array;
  /** No other automaton of quoted text has it. */
  readonly name: string;
}

/** Where in a quoted text a state is: in the quote before it, between two characters, within one, in the quote after it. */
export const PLACES = { before: 0, between: 1, within: 2, after: 3 } as const;

/** Labels below the number of names are names that come at most once, those above are classes of other keys. */
export interface KeyLabels {
  readonly names: readonly Uint8Array[];
  readonly numLabels: number;
}

export type GrammarNode =
  | { readonly kind: 'lexeme'; readonly lexeme: number }
  | { readonly kind: 'sequence'; readonly parts: readonly number[] }
  | { readonly kind: 'choice'; readonly options: readonly number[] }
  | RepeatNode
  | ObjectNode
  | ArrayNode;

/** The item is never empty. `max` null: without end. */
export interface RepeatNode {
  readonly kind: 'repeat';
  readonly item: number;
  readonly min: number;
  readonly max: number | null;
}

/** Lexemes between the members of an object or the items of an array. */
export interface Brackets {
  readonly open: number;
  readonly comma: number;
  readonly close: number;
}

export interface ObjectNode {
  readonly kind: 'object';
  readonly brackets: Brackets;
  readonly colon: number;
  readonly key: number;
  readonly numNames: number;
  /** By label. */
  readonly values: readonly number[];
  /** Names. */
  readonly required: readonly number[];
  /** By name: names that it makes required, those that these make required among them. */
  readonly dependents: readonly (readonly number[])[];
  readonly min: number;
  readonly max: number | null;
}

export interface ArrayNode {
  readonly kind: 'array';
  readonly brackets: Brackets;
  /** An item is one of these; each has a node for every place, the last one for all further places. */
  readonly kinds: readonly { readonly places: readonly number[]; readonly counts: readonly boolean[] }[];
  /** How many items of the kinds that count there must be, from a place on. */
  readonly contains: readonly { readonly min: number; readonly max: number | null; readonly from: number }[];
  readonly min: number;
  readonly max: number | null;
  /** Items so far and counts from which the array can be finished; null: from all. */
  readonly viable: ReadonlySet<string> | null;
}

/** The height of a node that no text can be. */
export const UNREACHABLE = 1_000_000;

/** A point in an array, as `viable` has it. */
export function viableKey(count: number, seen: readonly number[]): string {
  return `${count}/${seen.join()}`;
}

/** Counts one more item, no further than it matters. */
export function afterItem(
  node: ArrayNode,
  count: number,
  kind: number,
  seen: readonly number[],
): { count: number; seen: readonly number[] } {
  const longest = Math.max(...node.kinds.map(({ places }) => places.length - 1));
  const most = Math.max(longest, node.min, node.max ?? 0, ...node.contains.map(({ from }) => from));
  const { counts } = node.kinds[kind]!;
  const next = seen.map((value, i) => {
    const { min, max, from } = node.contains[i]!;
    return counts[i] === true && count >= from ? Math.min(value + 1, max === null ? min : max + 1) : value;
  });
  return { count: Math.min(count + 1, most), seen: next };
}

export function isArrayComplete(
  node: ArrayNode,
  { count, seen }: { count: number; seen: readonly number[] },
): boolean {
  if (count < node.min) return false;
  return node.contains.every(({ min, max }, i) => seen[i]! >= min && (max === null || seen[i]! <= max));
}
