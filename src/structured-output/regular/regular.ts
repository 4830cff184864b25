// Regular expressions over characters as data, and the automaton over bytes that each of them is.

import type { Budget } from '../limits.ts';
import { type Dfa, DfaBuilder } from './dfa.ts';
import { MAX_CODE_POINT, type Range, utf8Sequences } from './utf8.ts';

export type Regular =
  | { readonly kind: 'chars'; readonly ranges: readonly Range[] }
  /** One byte of each of these ranges, whether or not they are text. */
  | { readonly kind: 'bytes'; readonly ranges: readonly Range[] }
  | { readonly kind: 'dfa'; readonly dfa: Dfa | null }
  | { readonly kind: 'sequence'; readonly parts: readonly Regular[] }
  | { readonly kind: 'choice'; readonly options: readonly Regular[] }
  /** `max` null: without end. */
  | { readonly kind: 'repeat'; readonly item: Regular; readonly min: number; readonly max: number | null }
  /** Matches nothing, only where the text begins or ends. */
  | { readonly kind: 'edge'; readonly at: 'begin' | 'end' };

export const sequence = (...parts: readonly Regular[]): Regular => ({ kind: 'sequence', parts });
export const choice = (...options: readonly Regular[]): Regular => ({ kind: 'choice', options });
export const repeat = (item: Regular, min: number, max: number | null): Regular => ({
  kind: 'repeat',
  item,
  min,
  max,
});
export const optional = (item: Regular): Regular => repeat(item, 0, 1);
export const chars = (...ranges: readonly Range[]): Regular => ({ kind: 'chars', ranges });
export const bytes = (...ranges: readonly Range[]): Regular => ({ kind: 'bytes', ranges });
export const NOTHING: Regular = choice();
export const EMPTY: Regular = sequence();
export const ANY_CHAR = chars([0, MAX_CODE_POINT]);

export function text(value: string): Regular {
  return sequence(...Array.from(value, (char) => chars([char.codePointAt(0)!, char.codePointAt(0)!])));
}

/** Any of these characters. */
export function oneOf(characters: string): Regular {
  return chars(...Array.from(characters, (char): Range => [char.codePointAt(0)!, char.codePointAt(0)!]));
}

/** Null where no text matches. */
export function toDfa(expression: Regular, budget: Budget): Dfa | null {
  const nfa = new Nfa(budget);
  const start = nfa.state();
  const end = nfa.state();
  nfa.connect(expression, start, end);
  return nfa.determinise(start, end);
}

const sequencesOf = new WeakMap<readonly Range[], readonly Range[][]>();

/** Expressions are repeated, and shared by all constraints: what they are in bytes is found once. */
function bytesOf(ranges: readonly Range[]): readonly Range[][] {
  const known = sequencesOf.get(ranges);
  if (known !== undefined) return known;
  const sequences = ranges.flatMap(([low, high]) => utf8Sequences(low, high));
  sequencesOf.set(ranges, sequences);
  return sequences;
}

interface NfaState {
  readonly edges: { readonly low: number; readonly high: number; readonly to: number }[];
  readonly empty: number[];
  readonly atBegin: number[];
  readonly atEnd: number[];
}

const STATE_WORK = 100;

/** Thompson's construction, and the subsets of Rabin and Scott. */
class Nfa {
  readonly #budget: Budget;
  readonly #states: NfaState[] = [];
  /** [states] the round in which a closure came to a state. */
  readonly #seenIn: number[] = [];
  #round = 0;
  #hasEnds = false;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  state(): number {
    // Its lists take most of the time and memory that a long repetition costs.
    this.#budget.spend(STATE_WORK);
    return this.#states.push({ edges: [], empty: [], atBegin: [], atEnd: [] }) - 1;
  }

  connect(expression: Regular, from: number, to: number): void {
    this.#budget.spend(1);
    const state = this.#states[from]!;
    switch (expression.kind) {
      case 'chars':
        for (const ranges of bytesOf(expression.ranges)) this.#connectBytes(ranges, from, to);
        return;
      case 'bytes':
        this.#connectBytes(expression.ranges, from, to);
        return;
      case 'dfa':
        if (expression.dfa !== null) this.#connectDfa(expression.dfa, from, to);
        return;
      case 'sequence':
        this.#connectParts(expression.parts, from, to);
        return;
      case 'choice':
        for (const option of expression.options) this.connect(option, from, to);
        return;
      case 'repeat':
        this.#connectRepeat(expression.item, expression.min, expression.max, from, to);
        return;
      case 'edge':
        this.#hasEnds ||= expression.at === 'end';
        (expression.at === 'begin' ? state.atBegin : state.atEnd).push(to);
    }
  }

  #connectBytes(ranges: readonly Range[], from: number, to: number): void {
    let state = from;
    for (const [i, [low, high]] of ranges.entries()) {
      const next = i === ranges.length - 1 ? to : this.state();
      this.#states[state]!.edges.push({ low, high, to: next });
      state = next;
    }
  }

  #connectDfa(dfa: Dfa, from: number, to: number): void {
    const states = Array.from(dfa.labels, () => this.state());
    this.#states[from]!.empty.push(states[0]!);
    for (const [state, label] of dfa.labels.entries()) {
      const { edges, empty } = this.#states[states[state]!]!;
      if (label >= 0) empty.push(to);
      this.#budget.spend(256);
      let low = 0;
      for (let byte = 1; byte <= 256; byte += 1) {
        if (byte < 256 && dfa.classes[byte] === dfa.classes[low]) continue;
        const next = dfa.next[state * dfa.numClasses + dfa.classes[low]!]!;
        if (next >= 0) edges.push({ low, high: byte - 1, to: states[next]! });
        low = byte;
      }
    }
  }

  #connectParts(parts: readonly Regular[], from: number, to: number): void {
    let state = from;
    for (const part of parts) {
      const next = this.state();
      this.connect(part, state, next);
      state = next;
    }
    this.#states[state]!.empty.push(to);
  }

  #connectRepeat(item: Regular, min: number, max: number | null, from: number, to: number): void {
    let state = from;
    for (let i = 0; i < (max ?? min); i += 1) {
      if (i >= min) this.#states[state]!.empty.push(to);
      const next = this.state();
      this.connect(item, state, next);
      state = next;
    }
    if (max === null) {
      // States of their own: what comes before and after the circle must not enter it.
      const circle = this.state();
      this.#states[state]!.empty.push(circle);
      const after = this.state();
      this.connect(item, circle, after);
      this.#states[after]!.empty.push(circle);
      state = circle;
    }
    this.#states[state]!.empty.push(to);
  }

  determinise(start: number, end: number): Dfa | null {
    const { classes, numClasses, firstBytes } = this.#byteClasses();
    const builder = new DfaBuilder(classes, numClasses, this.#budget);
    const sets: number[][] = [];
    const ids = new Map<string, number>();
    const idOf = (states: readonly number[], atBegin: boolean): number => {
      const set = this.#closure(states, atBegin, false);
      const key = `${atBegin}${set.join()}`;
      const known = ids.get(key);
      if (known !== undefined) return known;
      const accepts =
        set.includes(end) || (this.#hasEnds && this.#closure(states, atBegin, true).includes(end));
      const id = builder.add(accepts ? 0 : -1);
      ids.set(key, id);
      sets.push(set);
      return id;
    };
    idOf([start], true);
    for (let at = 0; at < sets.length; at += 1) {
      const targets: (number[] | undefined)[] = [];
      for (const state of sets[at]!) {
        for (const { low, high, to } of this.#states[state]!.edges) {
          this.#budget.spend(1);
          for (let id = classes[low]!; id < numClasses && firstBytes[id]! <= high; id += 1) {
            const known = targets[id];
            if (known === undefined) targets[id] = [to];
            else known.push(to);
          }
        }
      }
      const row = builder.row(at);
      for (const [id, states] of targets.entries()) if (states !== undefined) row[id] = idOf(states, false);
    }
    return builder.build();
  }

  /** Classes are runs of bytes, numbered in their order. */
  #byteClasses(): { classes: Uint8Array; numClasses: number; firstBytes: number[] } {
    const begins = new Uint8Array(257);
    begins[0] = 1;
    for (const { edges } of this.#states) {
      for (const { low, high } of edges) {
        begins[low] = 1;
        begins[high + 1] = 1;
      }
    }
    const firstBytes: number[] = [];
    const classes = Uint8Array.from({ length: 256 }, (_, byte) => {
      if (begins[byte] === 1) firstBytes.push(byte);
      return firstBytes.length - 1;
    });
    return { classes, numClasses: firstBytes.length, firstBytes };
  }

  /** All states that are reached without a byte, sorted. */
  #closure(states: readonly number[], atBegin: boolean, atEnd: boolean): number[] {
    this.#round += 1;
    const queue: number[] = [];
    this.#enqueue(states, queue);
    for (let at = 0; at < queue.length; at += 1) {
      const state = this.#states[queue[at]!]!;
      if (state.empty.length > 0) this.#enqueue(state.empty, queue);
      if (atBegin) this.#enqueue(state.atBegin, queue);
      if (atEnd) this.#enqueue(state.atEnd, queue);
    }
    this.#budget.spend(queue.length);
    return queue.sort((a, b) => a - b);
  }

  #enqueue(states: readonly number[], queue: number[]): void {
    for (const state of states) {
      if (this.#seenIn[state] === this.#round) continue;
      this.#seenIn[state] = this.#round;
      queue.push(state);
    }
  }
}
