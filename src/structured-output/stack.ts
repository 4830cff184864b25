// The stack of a text that is being written: what is open, and what each open thing has seen. Equal stacks are one object,
// so that alternatives that have come to the same point are one, and what was found out about a stack is kept with it.

import {
  type ArrayNode,
  afterItem,
  type Grammar,
  type GrammarNode,
  isArrayComplete,
  type ObjectNode,
  type RepeatNode,
  viableKey,
} from './grammar.ts';
import type { Lexer } from './lexer.ts';
import type { Kept, Meter } from './meter.ts';

/** A point in a lexeme, and what comes after it. */
export interface Configuration {
  readonly lexeme: number;
  readonly state: number;
  readonly stack: Frame;
}

/** What a frame has seen; the lexeme or node that is being written above it says `phase`. */
interface FrameData {
  readonly phase: 'part' | 'open' | 'key' | 'colon' | 'value' | 'comma';
  /** Parts done, items or members so far, as far as it matters. */
  readonly count: number;
  /** Label of the key whose value comes; kind of the item. */
  readonly label: number;
  /** Names of an object, a bit each; counts of an array. */
  readonly seen: readonly number[];
}

export interface Frame {
  /** Null at the bottom. */
  readonly parent: Frame | null;
  readonly node: number;
  readonly data: FrameData;
  readonly depth: number;
  readonly children: Map<string, Frame>;
  readonly configurations: Map<number, Configuration>;
  /** By the label of the lexeme above it. */
  readonly after: Map<number, Kept<readonly Step[]>>;
  /** Labels of keys that may come; filled when first asked for. */
  openKeys: Kept<Uint32Array> | null;
}

/** What may come after a lexeme: another one, or the end of the whole text. */
export type Step = Configuration | 'end';

const LEXEME_SHIFT = 2 ** 32;
/** Of a node that is entered, a step that is passed on, and a key that is looked at: in the steps of a meter. */
const ENTER_WORK = 60;
const STEP_WORK = 2;
const KEY_WORK = 20;

export function bottomFrame(): Frame {
  return newFrame(null, -1, { phase: 'part', count: 0, label: 0, seen: [] }, 0);
}

function newFrame(parent: Frame | null, node: number, data: FrameData, depth: number): Frame {
  const empty = { children: new Map(), configurations: new Map(), after: new Map(), openKeys: null };
  return { parent, node, data, depth, ...empty };
}

export class StackMachine {
  readonly #grammar: Grammar;
  readonly #lexer: Lexer;
  readonly #meter: Meter;
  /** Frames and configurations made since the count was last set to 0. */
  numMade = 0;

  constructor(grammar: Grammar, lexer: Lexer, meter: Meter) {
    this.#grammar = grammar;
    this.#lexer = lexer;
    this.#meter = meter;
  }

  start(bottom: Frame): readonly Step[] {
    const steps: Step[] = [];
    this.#enter(this.#grammar.root, bottom, steps);
    return steps;
  }

  configuration(lexeme: number, state: number, stack: Frame): Configuration {
    const key = lexeme * LEXEME_SHIFT + state;
    const known = stack.configurations.get(key);
    if (known !== undefined) return known;
    this.numMade += 1;
    const made = { lexeme, state, stack };
    stack.configurations.set(key, made);
    return made;
  }

  /** What may come after a lexeme of this label above this stack. */
  after(stack: Frame, label: number): readonly Step[] {
    const known = stack.after.get(label);
    if (known !== undefined) {
      this.#meter.need(known.part);
      return known.value;
    }
    const made = this.#meter.keep(() => {
      const steps: Step[] = [];
      this.#meter.descend(() => this.#resume(stack, label, steps));
      return [...new Set(steps)];
    });
    stack.after.set(label, made);
    return made.value;
  }

  /** The labels that the lexeme above this stack may have; null: all. */
  openKeys(lexeme: number, stack: Frame): Uint32Array | null {
    if (this.#lexer.lexeme(lexeme).lexeme.keys === null) return null;
    const node = this.#node(stack);
    if (node.kind !== 'object') return null;
    if (stack.openKeys === null) stack.openKeys = this.#meter.keep(() => this.#findOpenKeys(node, stack));
    else this.#meter.need(stack.openKeys.part);
    return stack.openKeys.value;
  }

  #findOpenKeys(node: ObjectNode, stack: Frame): Uint32Array {
    const numLabels = node.values.length;
    this.#meter.spend(numLabels * (KEY_WORK + missingNames(node, stack.data.seen).length));
    const open = new Uint32Array(Math.ceil(numLabels / 32));
    for (let label = 0; label < numLabels; label += 1)
      if (this.#mayHaveKey(node, stack, label)) open[label >>> 5]! |= 1 << (label & 31);
    return open;
  }

  #node(stack: Frame): GrammarNode {
    return this.#grammar.nodes[stack.node]!;
  }

  #push(parent: Frame, node: number, data: FrameData): Frame {
    const key = `${node}/${data.phase}/${data.count}/${data.label}/${data.seen.join()}`;
    const known = parent.children.get(key);
    if (known !== undefined) return known;
    this.numMade += 1;
    const made = newFrame(parent, node, data, parent.depth + 1);
    parent.children.set(key, made);
    return made;
  }

  /** Replaces what a frame has seen. */
  #become(frame: Frame, data: Partial<FrameData>): Frame {
    return this.#push(frame.parent!, frame.node, { ...frame.data, ...data });
  }

  #fits(node: number, stack: Frame): boolean {
    return stack.depth + this.#grammar.heights[node]! <= this.#grammar.maxDepth;
  }

  #enter(index: number, stack: Frame, steps: Step[]): void {
    if (!this.#fits(index, stack)) return;
    this.#meter.spend(ENTER_WORK);
    this.#meter.descend(() => this.#enterNode(index, this.#grammar.nodes[index]!, stack, steps));
  }

  #enterNode(index: number, node: GrammarNode, stack: Frame, steps: Step[]): void {
    switch (node.kind) {
      case 'lexeme':
        steps.push(this.configuration(node.lexeme, 0, stack));
        return;
      case 'choice':
        for (const option of node.options) this.#enter(option, stack, steps);
        return;
      case 'sequence':
        this.#enterPart(index, node.parts, 0, stack, steps);
        return;
      case 'repeat':
        this.#enterRepeat(index, node, 0, stack, steps);
        return;
      case 'object':
      case 'array': {
        const seen = node.kind === 'object' ? [] : node.contains.map(() => 0);
        const frame = this.#push(stack, index, { phase: 'open', count: 0, label: 0, seen });
        steps.push(this.configuration(node.brackets.open, 0, frame));
      }
    }
  }

  #enterPart(index: number, parts: readonly number[], at: number, stack: Frame, steps: Step[]): void {
    if (at >= parts.length) this.#leave(stack, steps);
    // The last part needs no frame: what comes after it is what comes after the sequence.
    else if (at === parts.length - 1) this.#enter(parts[at]!, stack, steps);
    else {
      const frame = this.#push(stack, index, { phase: 'part', count: at + 1, label: 0, seen: [] });
      this.#enter(parts[at]!, frame, steps);
    }
  }

  #enterRepeat(
    index: number,
    { item, min, max }: RepeatNode,
    count: number,
    stack: Frame,
    steps: Step[],
  ): void {
    if (count >= min) this.#leave(stack, steps);
    if (max !== null && count >= max) return;
    const next = max === null ? Math.min(count + 1, min) : count + 1;
    this.#enter(item, this.#push(stack, index, { phase: 'part', count: next, label: 0, seen: [] }), steps);
  }

  /** What is on top of the stack is done, without a lexeme after it. */
  #leave(stack: Frame, steps: Step[]): void {
    const after = this.after(stack, 0);
    this.#meter.spend(after.length * STEP_WORK);
    for (const step of after) steps.push(step);
  }

  #resume(stack: Frame, label: number, steps: Step[]): void {
    if (stack.parent === null) {
      steps.push('end');
      return;
    }
    const node = this.#node(stack);
    const { parent, data } = stack;
    if (node.kind === 'sequence') this.#enterPart(stack.node, node.parts, data.count, parent, steps);
    else if (node.kind === 'repeat') this.#enterRepeat(stack.node, node, data.count, parent, steps);
    else if (node.kind === 'object') this.#resumeObject(node, stack, label, steps);
    else if (node.kind === 'array') this.#resumeArray(node, stack, steps);
  }

  #resumeObject(node: ObjectNode, stack: Frame, label: number, steps: Step[]): void {
    const { phase, count, seen } = stack.data;
    if (phase === 'key') {
      const most = Math.max(node.min, node.max ?? 0);
      const nextSeen = label < node.numNames ? withBit(seen, label) : seen;
      const next = { phase: 'colon', count: Math.min(count + 1, most), label, seen: nextSeen } as const;
      steps.push(this.configuration(node.colon, 0, this.#become(stack, next)));
    } else if (phase === 'colon') {
      this.#enter(node.values[stack.data.label]!, this.#become(stack, { phase: 'value', label: 0 }), steps);
    } else {
      if (phase !== 'comma' && isObjectComplete(node, stack)) this.#close(node.brackets.close, stack, steps);
      const keys = this.#become(stack, { phase: 'key' });
      if (!this.openKeys(node.key, keys)?.some((word) => word !== 0)) return;
      if (phase === 'value')
        steps.push(this.configuration(node.brackets.comma, 0, this.#become(stack, { phase: 'comma' })));
      else steps.push(this.configuration(node.key, 0, keys));
    }
  }

  #close(lexeme: number, stack: Frame, steps: Step[]): void {
    steps.push(this.configuration(lexeme, 0, stack.parent!));
  }

  /** The object can be finished after a key of this label. */
  #mayHaveKey(node: ObjectNode, stack: Frame, label: number): boolean {
    const { seen, count } = stack.data;
    const isName = label < node.numNames;
    if (isName && hasBit(seen, label)) return false;
    if (!this.#fits(node.values[label]!, stack)) return false;
    const after = isName ? withBit(seen, label) : seen;
    const missing = missingNames(node, after);
    if (missing.some((name) => !this.#fits(node.values[name]!, stack))) return false;
    const least = count + 1 + missing.length;
    if (node.max !== null && least > node.max) return false;
    const others = node.values.slice(node.numNames);
    if (least >= node.min || others.some((value) => this.#fits(value, stack))) return true;
    // Every further name must come from those that are left.
    return count + 1 + numUnseen(node, after, (name) => this.#fits(node.values[name]!, stack)) >= node.min;
  }

  #resumeArray(node: ArrayNode, stack: Frame, steps: Step[]): void {
    const { phase, count, label, seen } = stack.data;
    if (phase === 'value') {
      const done = this.#become(stack, { phase: 'part', ...afterItem(node, count, label, seen), label: 0 });
      if (isArrayComplete(node, done.data)) this.#close(node.brackets.close, done, steps);
      if (this.#items(node, done).length > 0)
        steps.push(this.configuration(node.brackets.comma, 0, this.#become(done, { phase: 'comma' })));
      return;
    }
    if (phase === 'open' && isArrayComplete(node, stack.data)) this.#close(node.brackets.close, stack, steps);
    for (const { kind, item } of this.#items(node, stack))
      this.#enter(item, this.#become(stack, { phase: 'value', label: kind }), steps);
  }

  /** The kinds of items after which the array can be finished. */
  #items(node: ArrayNode, stack: Frame): { kind: number; item: number }[] {
    const { count, seen } = stack.data;
    return node.kinds.flatMap(({ places }, kind) => {
      const item = places[Math.min(count, places.length - 1)]!;
      const next = afterItem(node, count, kind, seen);
      const isOpen =
        (node.max === null || count < node.max) &&
        (node.viable?.has(viableKey(next.count, next.seen)) ?? true) &&
        this.#fits(item, stack);
      return isOpen ? [{ kind, item }] : [];
    });
  }
}

function isObjectComplete(node: ObjectNode, stack: Frame): boolean {
  return stack.data.count >= node.min && missingNames(node, stack.data.seen).length === 0;
}

/** Names that must still come, those that they make required among them. */
function missingNames(node: ObjectNode, seen: readonly number[]): number[] {
  const missing = new Set(node.required);
  for (const [name, others] of node.dependents.entries())
    if (others.length > 0 && hasBit(seen, name)) for (const other of others) missing.add(other);
  // A set that grows while it is read: names that are required in turn require others.
  for (const name of missing) for (const other of node.dependents[name] ?? []) missing.add(other);
  return [...missing].filter((name) => !hasBit(seen, name));
}

function numUnseen(node: ObjectNode, seen: readonly number[], fits: (name: number) => boolean): number {
  let count = 0;
  for (let name = 0; name < node.numNames; name += 1) if (!hasBit(seen, name) && fits(name)) count += 1;
  return count;
}

function hasBit(bits: readonly number[], bit: number): boolean {
  return (((bits[bit >>> 5] ?? 0) >>> (bit & 31)) & 1) === 1;
}

function withBit(bits: readonly number[], bit: number): number[] {
  const words = Array.from({ length: Math.max(bits.length, (bit >>> 5) + 1) }, (_, i) => bits[i] ?? 0);
  words[bit >>> 5]! |= 1 << (bit & 31);
  return words;
}
