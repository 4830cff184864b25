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

/** Bytes with which a text comes to its end soon, the best first. */
const TOWARDS_END = Buffer.from('"}]:,0123456789aelnrstuf{[');
const MOST_BYTES = 4000;

/** A text by chance that the constraint allows, ended as soon as `length` bytes are written. */
export function randomText(automaton: ByteAutomaton, length: number, random: () => number): string {
  const bytes: number[] = [];
  let state = automaton.start();
  while (!state.isComplete || (bytes.length < length && random() < 0.9)) {
    if (bytes.length > MOST_BYTES) throw new Error(`no end in sight: ${Buffer.from(bytes)}`);
    const next = nextByte(automaton, state, bytes.length >= length, random);
    if (next === null) {
      if (state.isComplete) break;
      throw new Error(`a dead end: ${Buffer.from(bytes)}`);
    }
    bytes.push(next);
    state = automaton.step(state, next)!;
  }
  return Buffer.from(bytes).toString();
}

function nextByte(
  automaton: ByteAutomaton,
  state: State,
  isEnding: boolean,
  random: () => number,
): number | null {
  const allowed = Array.from({ length: 256 }, (_, byte) => byte).filter(
    (byte) => automaton.step(state, byte) !== null,
  );
  if (isEnding) {
    const best = TOWARDS_END.find((byte) => allowed.includes(byte));
    if (best !== undefined) return best;
  }
  // Whitespace would be most of the text.
  const visible = allowed.filter((byte) => byte > 0x20);
  const candidates = visible.length > 0 && random() < 0.95 ? visible : allowed;
  return candidates[Math.floor(random() * candidates.length)] ?? null;
}

/** Numbers between 0 and 1, the same ones for a seed. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
