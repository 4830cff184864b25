// Deterministic automata over bytes, as plain data, and the set algebra of the languages that they accept.

import type { Budget } from '../limits.ts';

/** Each makes one byte more of common endings common. */
const MERGE_ROUNDS = 8;

/** Of Fowler, Noll and Vo. */
const HASH_PRIME = 16_777_619;

/** State 0 is the start. From each state an accepting one can be reached: what is alive can be finished. */
export interface Dfa {
  /** Bytes of one class lead from any state to the same one. [256] */
  readonly classes: Uint8Array;
  readonly numClasses: number;
  /** [states, numClasses]; -1: no such text. */
  readonly next: Int32Array;
  /** [states]; -1 where the text must not end, else which of the texts it is. */
  readonly labels: Int32Array;
}

export function step(dfa: Dfa, state: number, byte: number): number {
  return dfa.next[state * dfa.numClasses + dfa.classes[byte]!]!;
}

/** The label of a whole text, -1 where it is not accepted. */
export function match(dfa: Dfa, text: string | Uint8Array): number {
  let state = 0;
  for (const byte of typeof text === 'string' ? Buffer.from(text) : text) {
    state = step(dfa, state, byte);
    if (state < 0) return -1;
  }
  return dfa.labels[state]!;
}

/** A growing table of transitions. */
export class DfaBuilder {
  readonly classes: Uint8Array;
  readonly numClasses: number;
  readonly #budget: Budget;
  readonly #rows: Int32Array[] = [];
  readonly #labels: number[] = [];

  constructor(classes: Uint8Array, numClasses: number, budget: Budget) {
    this.classes = classes;
    this.numClasses = numClasses;
    this.#budget = budget;
  }

  get size(): number {
    return this.#rows.length;
  }

  add(label: number): number {
    const { maxDfaStates } = this.#budget.limits;
    if (this.#rows.length >= maxDfaStates)
      this.#budget.refuse(`needs more than ${maxDfaStates} states of an automaton; make it simpler`);
    this.#budget.spend(this.numClasses);
    this.#rows.push(new Int32Array(this.numClasses).fill(-1));
    this.#labels.push(label);
    return this.#rows.length - 1;
  }

  row(state: number): Int32Array {
    return this.#rows[state]!;
  }

  label(state: number, label: number): void {
    this.#labels[state] = label;
  }

  /** Null where no text is accepted. */
  build(): Dfa | null {
    const alive = this.#reachableAndFinishing();
    if (alive === null) return null;
    const { numClasses } = this;
    const kept = this.#rows.map((_, state) => state).filter((state) => alive[state]! >= 0);
    const next = new Int32Array(kept.length * numClasses);
    for (const [number, state] of kept.entries()) {
      const row = this.#rows[state]!;
      for (let i = 0; i < numClasses; i += 1)
        next[number * numClasses + i] = row[i]! < 0 ? -1 : alive[row[i]!]!;
    }
    const labels = Int32Array.from(kept, (state) => this.#labels[state]!);
    return mergeClasses(mergeStates({ classes: this.classes, numClasses, next, labels }, this.#budget));
  }

  /** The new number of each state from which an accepting one can be reached, -1 for the others. */
  #reachableAndFinishing(): Int32Array | null {
    const sources: number[][] = this.#rows.map(() => []);
    for (const [state, row] of this.#rows.entries()) {
      let before = -1;
      for (let i = 0; i < row.length; i += 1) {
        const target = row[i]!;
        // Neighbouring bytes mostly lead to the same state; some that are named twice do no harm.
        if (target >= 0 && target !== before) sources[target]!.push(state);
        before = target;
      }
    }
    const alive = new Int32Array(this.#rows.length).fill(-1);
    const queue = this.#labels.flatMap((label, state) => (label >= 0 ? [state] : []));
    for (const state of queue) alive[state] = 0;
    for (let at = 0; at < queue.length; at += 1) {
      for (const source of sources[queue[at]!]!) {
        if (alive[source] === 0) continue;
        alive[source] = 0;
        queue.push(source);
      }
    }
    if (alive[0] !== 0) return null;
    let number = 0;
    for (let state = 0; state < alive.length; state += 1) {
      if (alive[state] === 0) {
        alive[state] = number;
        number += 1;
      }
    }
    return alive;
  }
}

/** States that are alike in all they lead to become one, from the ends of texts towards their beginnings. */
function mergeStates(dfa: Dfa, budget: Budget): Dfa {
  const { numClasses } = dfa;
  let { next, labels } = dfa;
  for (let round = 0; round < MERGE_ROUNDS; round += 1) {
    budget.spend(next.length);
    const { merged, kept } = mergeRows(next, labels, numClasses);
    if (kept.length === labels.length) break;
    const rows = new Int32Array(kept.length * numClasses);
    for (const [id, state] of kept.entries()) {
      for (let i = 0; i < numClasses; i += 1) {
        const target = next[state * numClasses + i]!;
        rows[id * numClasses + i] = target < 0 ? -1 : merged[target]!;
      }
    }
    labels = Int32Array.from(kept, (state) => labels[state]!);
    next = rows;
  }
  return { classes: dfa.classes, numClasses, next, labels };
}

/** One number for all rows that are alike, with their labels, and the first row of each number. */
function mergeRows(
  next: Int32Array,
  labels: Int32Array,
  width: number,
): { merged: Int32Array; kept: number[] } {
  const merged = new Int32Array(labels.length);
  const kept: number[] = [];
  const byHash = new Map<number, number[]>();
  for (const [state, label] of labels.entries()) {
    const row = next.subarray(state * width, (state + 1) * width);
    let hash = label;
    for (let i = 0; i < width; i += 1) hash = Math.imul(hash ^ row[i]!, HASH_PRIME) ^ (hash >>> 15);
    const alike = byHash.get(hash) ?? [];
    const known = alike.find((id) => {
      const at = kept[id]! * width;
      return labels[kept[id]!] === label && isSame(row, next.subarray(at, at + width));
    });
    merged[state] = known ?? kept.length;
    if (known !== undefined) continue;
    byHash.set(hash, [...alike, kept.length]);
    kept.push(state);
  }
  return { merged, kept };
}

/** A loop: it is asked for each state that is merged. */
function isSame(row: Int32Array, other: Int32Array): boolean {
  for (let i = 0; i < row.length; i += 1) if (row[i] !== other[i]) return false;
  return true;
}

/**
 * [states] the first state that is the same as far as texts of `numBytes` bytes can tell, their labels among it; null where no two
 * states are.
 */
export function alikeOver({ next, labels, numClasses }: Dfa, numBytes: number): Int32Array | null {
  // Over no bytes, before labels are looked at.
  let merged: Int32Array = new Int32Array(labels.length);
  const rows = new Int32Array(next.length);
  let kept: readonly number[] = [0];
  for (let bytes = 0; bytes <= numBytes; bytes += 1) {
    const numBefore = kept.length;
    for (let i = 0; i < rows.length; i += 1) rows[i] = next[i]! < 0 ? -1 : merged[next[i]!]!;
    ({ merged, kept } = mergeRows(rows, labels, numClasses));
    if (kept.length === labels.length) return null;
    if (bytes > 0 && kept.length === numBefore) break;
  }
  return Int32Array.from(merged, (id) => kept[id]!);
}

/** Fewer columns: those that are alike become one. */
function mergeClasses(dfa: Dfa): Dfa {
  const { numClasses, labels } = dfa;
  const numStates = labels.length;
  // Columns of large automata are as good as never alike.
  if (numStates > 5000) return dfa;
  const asRows = new Int32Array(dfa.next.length);
  for (let state = 0; state < numStates; state += 1) {
    for (let column = 0; column < numClasses; column += 1)
      asRows[column * numStates + state] = dfa.next[state * numClasses + column]!;
  }
  const { merged, kept: columns } = mergeRows(asRows, new Int32Array(numClasses), numStates);
  if (columns.length === numClasses) return dfa;
  const next = new Int32Array(numStates * columns.length);
  for (let state = 0; state < numStates; state += 1) {
    for (const [id, column] of columns.entries())
      next[state * columns.length + id] = dfa.next[state * numClasses + column]!;
  }
  return { classes: dfa.classes.map((old) => merged[old]!), numClasses: columns.length, next, labels };
}

/**
 * Runs both automata side by side.
 * @param label from the labels of both, -1 where one does not accept.
 */
export function product(
  a: Dfa | null,
  b: Dfa | null,
  budget: Budget,
  label: (a: number, b: number) => number,
): Dfa | null {
  const left = a ?? NOTHING;
  const right = b ?? NOTHING;
  const { classes, numClasses, pairs } = commonClasses(left, right);
  const builder = new DfaBuilder(classes, numClasses, budget);
  const states: [number, number][] = [];
  const ids = new Map<number, number>();
  const idOf = (p: number, q: number): number => {
    const key = (p + 1) * (right.labels.length + 1) + q + 1;
    const known = ids.get(key);
    if (known !== undefined) return known;
    const id = builder.add(label(p < 0 ? -1 : left.labels[p]!, q < 0 ? -1 : right.labels[q]!));
    ids.set(key, id);
    states.push([p, q]);
    return id;
  };
  idOf(a === null ? -1 : 0, b === null ? -1 : 0);
  for (let at = 0; at < states.length; at += 1) {
    const [p, q] = states[at]!;
    const row = builder.row(at);
    for (const [id, [classA, classB]] of pairs.entries()) {
      const nextP = p < 0 ? -1 : left.next[p * left.numClasses + classA]!;
      const nextQ = q < 0 ? -1 : right.next[q * right.numClasses + classB]!;
      if (nextP >= 0 || nextQ >= 0) row[id] = idOf(nextP, nextQ);
    }
  }
  return builder.build();
}

const NOTHING: Dfa = {
  classes: new Uint8Array(256),
  numClasses: 1,
  next: Int32Array.of(-1),
  labels: Int32Array.of(-1),
};

function commonClasses(
  a: Dfa,
  b: Dfa,
): { classes: Uint8Array; numClasses: number; pairs: [number, number][] } {
  const ids = new Map<number, number>();
  const pairs: [number, number][] = [];
  const classes = Uint8Array.from({ length: 256 }, (_, byte) => {
    const key = a.classes[byte]! * 256 + b.classes[byte]!;
    const id = ids.get(key) ?? ids.size;
    if (id === ids.size) pairs.push([a.classes[byte]!, b.classes[byte]!]);
    ids.set(key, id);
    return id;
  });
  return { classes, numClasses: pairs.length, pairs };
}

export function intersect(a: Dfa | null, b: Dfa | null, budget: Budget): Dfa | null {
  if (a === null || b === null) return null;
  return product(a, b, budget, (p, q) => (p >= 0 && q >= 0 ? p : -1));
}

export function unite(a: Dfa | null, b: Dfa | null, budget: Budget): Dfa | null {
  if (a === null || b === null) return a ?? b;
  return product(a, b, budget, (p, q) => (p >= 0 || q >= 0 ? 0 : -1));
}

export function subtract(a: Dfa | null, b: Dfa | null, budget: Budget): Dfa | null {
  if (a === null || b === null) return a;
  return product(a, b, budget, (p, q) => (q < 0 ? p : -1));
}

/** Accepts exactly these texts, each with its place in the list as label. */
export function dfaOfWords(words: readonly Uint8Array[], budget: Budget): Dfa | null {
  const used = new Uint8Array(256);
  for (const word of words) for (const byte of word) used[byte] = 1;
  let numClasses = 1;
  const classes = used.map((isUsed) => {
    if (isUsed === 0) return 0;
    numClasses += 1;
    return (numClasses - 1) & 255;
  });
  if (numClasses > 256) {
    for (let byte = 0; byte < 256; byte += 1) classes[byte] = byte;
    numClasses = 256;
  }
  const builder = new DfaBuilder(classes, numClasses, budget);
  builder.add(-1);
  for (const [label, word] of words.entries()) {
    let state = 0;
    for (const byte of word) {
      const row = builder.row(state);
      if (row[classes[byte]!]! < 0) row[classes[byte]!] = builder.add(-1);
      state = row[classes[byte]!]!;
    }
    builder.label(state, label);
  }
  return builder.build();
}

/** The texts that are accepted, or null where there are more than `max`. */
export function wordsOf(dfa: Dfa | null, max: number): Uint8Array[] | null {
  if (dfa === null) return [];
  const words: Uint8Array[] = [];
  const stack: { state: number; bytes: number[] }[] = [{ state: 0, bytes: [] }];
  while (stack.length > 0) {
    const { state, bytes } = stack.pop()!;
    // In a trimmed automaton a text longer than the states runs through a circle.
    if (bytes.length > dfa.labels.length || stack.length > 256 * max) return null;
    if (dfa.labels[state]! >= 0) words.push(Uint8Array.from(bytes));
    if (words.length > max) return null;
    for (let byte = 255; byte >= 0; byte -= 1) {
      const next = step(dfa, state, byte);
      if (next >= 0) stack.push({ state: next, bytes: [...bytes, byte] });
    }
  }
  return words;
}
