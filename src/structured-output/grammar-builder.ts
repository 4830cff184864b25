// Collects the lexemes and nodes of a grammar, and finds out which nodes any text can be.

import {
  type ArrayNode,
  type Grammar,
  type GrammarNode,
  type Lexeme,
  type ObjectNode,
  SHORT_BYTES,
  UNREACHABLE,
  viableKey,
} from './grammar.ts';
import type { Budget } from './limits.ts';
import { alikeOver, type Dfa } from './regular/dfa.ts';
import { type Regular, toDfa } from './regular/regular.ts';
import type { Marks } from './special-tokens.ts';

const NO_TEXT: GrammarNode = { kind: 'choice', options: [] };

/** Which part of a constraint has no text, and why, for messages. */
export interface Fault {
  readonly where: string;
  /** The end of a sentence. */
  readonly why: string;
}

type LexemeParts = Partial<Omit<Lexeme, 'dfa' | 'alike'>>;

export class GrammarBuilder {
  readonly budget: Budget;
  readonly marks: Marks;
  readonly #lexemes: Grammar['lexemes'][number][] = [];
  readonly #nodes: GrammarNode[] = [];
  readonly #faults = new Map<number, () => Fault>();

  constructor(budget: Budget, marks: Marks) {
    this.budget = budget;
    this.marks = marks;
  }

  /** A node that is filled later, so that it may contain itself. */
  reserve(): number {
    const { maxNodes } = this.budget.limits;
    if (this.#nodes.length >= maxNodes)
      this.budget.refuse(`needs more than ${maxNodes} nodes; make it smaller`);
    this.budget.spend(100);
    return this.#nodes.push(NO_TEXT) - 1;
  }

  fill(index: number, node: GrammarNode): void {
    this.#nodes[index] = node;
  }

  add(node: GrammarNode): number {
    const index = this.reserve();
    this.fill(index, node);
    return index;
  }

  /** @param fault is asked for where the node has no text. */
  explain(index: number, fault: () => Fault): void {
    this.#faults.set(index, fault);
  }

  lexeme(dfa: Dfa, parts: LexemeParts = {}): number {
    const lexeme: Lexeme = { dfa, length: null, keys: null, sharedName: null, alike: null, ...parts };
    return this.#lexemes.push(lexeme) - 1;
  }

  /** A node that is one lexeme; of no text where the automaton has none. */
  text(dfa: Dfa | null, parts: LexemeParts = {}): number {
    return this.add(dfa === null ? NO_TEXT : { kind: 'lexeme', lexeme: this.lexeme(dfa, parts) });
  }

  regular(expression: Regular): number {
    return this.text(toDfa(expression, this.budget));
  }

  /** A node that is a mark. */
  mark(text: string): number {
    return this.regular(this.marks.regular(text));
  }

  /** The node has the empty text; nodes that are not filled yet count as never empty. */
  mayBeEmpty(index: number): boolean {
    const node = this.#nodes[index]!;
    switch (node.kind) {
      case 'lexeme': {
        const { dfa, length } = this.#lexemes[node.lexeme]!;
        return length === null && dfa.labels[0]! >= 0;
      }
      case 'choice':
        return node.options.some((option) => this.mayBeEmpty(option));
      case 'sequence':
        return node.parts.every((part) => this.mayBeEmpty(part));
      case 'repeat':
        return node.min === 0;
      default:
        return false;
    }
  }

  finish(root: number): Grammar {
    const heights = this.#heights();
    this.budget.where = 'the constraint';
    if (heights[root]! >= UNREACHABLE) this.#refuseEmpty(root, heights);
    const { maxDepth } = this.budget.limits;
    if (heights[root]! > maxDepth)
      this.budget.refuse(`needs ${heights[root]} levels of nesting; there are ${maxDepth} at most`);
    const lexemes = this.#lexemes.map((lexeme) => ({ ...lexeme, alike: this.#alike(lexeme) }));
    return { lexemes, nodes: this.#nodes, heights, root, maxDepth };
  }

  /** It saves time later, but nothing is refused for it. */
  #alike({ dfa, length, keys, sharedName }: Lexeme): Int32Array | null {
    if (length !== null || keys !== null || sharedName !== null) return null;
    const most = dfa.next.length * (SHORT_BYTES + 1);
    if (most > this.budget.left) return null;
    this.budget.spend(most);
    return alikeOver(dfa, SHORT_BYTES);
  }

  /** @throws ConstraintError naming the innermost part that is known to leave no text to `root`. */
  #refuseEmpty(root: number, heights: readonly number[]): never {
    const seen = new Set<number>();
    let fault: (() => Fault) | undefined;
    for (let at: number | undefined = root; at !== undefined && !seen.has(at); ) {
      seen.add(at);
      fault = this.#faults.get(at) ?? fault;
      at = this.#emptyPart(this.#nodes[at]!, heights);
    }
    const { where, why } = fault?.() ?? { where: this.budget.where, why: '' };
    this.budget.where = where;
    this.budget.refuse(`allows no text at all${why}`);
  }

  /** The one part for which a node has no text; undefined where that is the node itself, or several parts. */
  #emptyPart(node: GrammarNode, heights: readonly number[]): number | undefined {
    const isEmpty = (part: number): boolean => heights[part]! >= UNREACHABLE;
    switch (node.kind) {
      case 'choice': {
        const options = node.options.filter((option) => !this.#isNothing(option));
        return options.length === 1 ? options[0] : undefined;
      }
      case 'sequence':
        return node.parts.find(isEmpty);
      case 'repeat':
        return node.item;
      case 'object':
        return [...neededLabels(node)].map((label) => node.values[label]!).find(isEmpty);
      default:
        return undefined;
    }
  }

  /** An option that stands for nothing in the constraint, such as the scalars of a schema that has none. */
  #isNothing(index: number): boolean {
    const node = this.#nodes[index]!;
    return node.kind === 'choice' && node.options.length === 0 && !this.#faults.has(index);
  }

  /** Levels of the stack that each node needs at least: the least fixed point, from the leaves on. */
  #heights(): number[] {
    const heights = new Array<number>(this.#nodes.length).fill(UNREACHABLE);
    for (let isStable = false; !isStable; ) {
      isStable = true;
      this.budget.spend(this.#nodes.length);
      for (let index = this.#nodes.length - 1; index >= 0; index -= 1) {
        const height = Math.min(UNREACHABLE, heightOf(this.#nodes[index]!, heights));
        if (height === heights[index]) continue;
        heights[index] = height;
        isStable = false;
      }
    }
    return heights;
  }
}

function heightOf(node: GrammarNode, heights: readonly number[]): number {
  switch (node.kind) {
    case 'lexeme':
      return 0;
    case 'choice':
      return least(node.options, heights);
    case 'sequence':
      return Math.max(
        0,
        ...node.parts.map((part, i) => heights[part]! + (i < node.parts.length - 1 ? 1 : 0)),
      );
    case 'repeat':
      return node.min === 0 ? 0 : 1 + heights[node.item]!;
    case 'object':
      return 1 + heightOfObject(node, heights);
    case 'array':
      return 1 + heightOfArray(node, heights);
  }
}

function least(nodes: readonly number[], heights: readonly number[]): number {
  return nodes.reduce((height, node) => Math.min(height, heights[node]!), UNREACHABLE);
}

/** Keys that an object must have. */
function neededLabels(node: ObjectNode): Set<number> {
  const needed = new Set(node.required);
  // A set that grows while it is read.
  for (const name of needed) for (const other of node.dependents[name] ?? []) needed.add(other);
  return needed;
}

function heightOfObject(node: ObjectNode, heights: readonly number[]): number {
  const needed = neededLabels(node);
  if (node.max !== null && (needed.size > node.max || node.min > node.max)) return UNREACHABLE;
  const tallest = Math.max(0, ...[...needed].map((name) => heights[node.values[name]!]!));
  const others = node.values.flatMap((value, label) =>
    needed.has(label) ? [] : [{ height: heights[value]!, label }],
  );
  const missing = node.min - needed.size;
  if (missing <= 0) return tallest;
  const classes = others.filter(({ label }) => label >= node.numNames).map(({ height }) => height);
  const names = others.filter(({ label }) => label < node.numNames).map(({ height }) => height);
  const inOrder = [...names.toSorted((a, b) => a - b), ...new Array<number>(missing).fill(UNREACHABLE)];
  // Either enough of the names that are left, or other keys for all of them.
  return Math.max(tallest, Math.min(inOrder[missing - 1]!, ...classes));
}

function heightOfArray(node: ArrayNode, heights: readonly number[]): number {
  const sizes = node.contains.map(({ min }) => min);
  const fewest = Math.max(node.min, ...sizes, 0);
  if (node.max !== null && fewest > node.max) return UNREACHABLE;
  if (
    node.viable !== null &&
    !node.viable.has(
      viableKey(
        0,
        node.contains.map(() => 0),
      ),
    )
  )
    return UNREACHABLE;
  const places = Math.min(fewest, Math.max(...node.kinds.map((kind) => kind.places.length)));
  let tallest = 0;
  for (let at = 0; at < places; at += 1) {
    const items = node.kinds.map((kind) => kind.places[Math.min(at, kind.places.length - 1)]!);
    tallest = Math.max(tallest, least(items, heights));
  }
  return tallest;
}
