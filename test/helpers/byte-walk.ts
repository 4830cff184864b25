// Walks of texts through a compiled constraint, byte by byte.

import type { ByteAutomaton, State } from '../../src/structured-output/byte-automaton.ts';

/** The state after a text, null where the constraint does not let it go on. */
export function walk(automaton: ByteAutomaton, text: string, from = automaton.start()): State | null {
  let state: State | null = from;
  for (const byte of Buffer.from(text)) state = state === null ? null : automaton.step(state, byte);
  return state;
}

export function accepts(automaton: ByteAutomaton, text: string): boolean {
  return walk(automaton, text)?.isComplete === true;
}

/** States that are searched for a way to the end: they are few, since all that is free is one. */
const MOST_STATES = 20_000;

/** A text by chance that the constraint allows: after `length` bytes it makes for its end. */
export function randomText(automaton: ByteAutomaton, length: number, random: () => number): string {
  const bytes: number[] = [];
  let state = automaton.start();
  while (bytes.length < length && (!state.isComplete || random() < 0.9)) {
    const next = randomByte(automaton, state, random);
    if (next === null) break;
    bytes.push(next);
    state = automaton.step(state, next)!;
  }
  return Buffer.from([...bytes, ...wayToEnd(automaton, state)]).toString();
}

function randomByte(automaton: ByteAutomaton, state: State, random: () => number): number | null {
  const allowed = Array.from({ length: 256 }, (_, byte) => byte).filter(
    (byte) => automaton.step(state, byte) !== null,
  );
  // Whitespace would be most of the text.
  const visible = allowed.filter((byte) => byte > 0x20);
  const candidates = visible.length > 0 && random() < 0.95 ? visible : allowed;
  return candidates[Math.floor(random() * candidates.length)] ?? null;
}

/** Prefers what closes brackets: a way to the end is never up. */
function wayToEnd(automaton: ByteAutomaton, from: State): number[] {
  const found: { state: State; before: number; byte: number }[] = [{ state: from, before: -1, byte: 0 }];
  const seen = new Set([from]);
  const byDepth = new Map<number, number[]>([[depthOf(from), [0]]]);
  while (found.length < MOST_STATES) {
    const depth = Math.min(...byDepth.keys());
    const at = byDepth.get(depth)?.shift();
    if (at === undefined) throw new Error('a dead end');
    if (byDepth.get(depth)!.length === 0) byDepth.delete(depth);
    const { state } = found[at]!;
    if (state.isComplete) {
      const bytes: number[] = [];
      for (let way = at; way > 0; way = found[way]!.before) bytes.unshift(found[way]!.byte);
      return bytes;
    }
    for (let byte = 0; byte < 256; byte += 1) {
      const next = automaton.step(state, byte);
      if (next === null || seen.has(next)) continue;
      seen.add(next);
      const nextDepth = depthOf(next);
      byDepth.set(nextDepth, [...(byDepth.get(nextDepth) ?? []), found.length]);
      found.push({ state: next, before: at, byte });
    }
  }
  throw new Error('no end is near');
}

function depthOf({ isComplete, configurations }: State): number {
  return isComplete ? -1 : Math.min(...configurations.map(({ stack }) => stack.depth));
}

/** Numbers between 0 and 1, the same ones for a seed. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
