// Automata that many schemas have: made once, then kept.

import type { Dfa } from '../regular/dfa.ts';

const MAX_KEPT = 512;
const kept = new Map<string, Dfa>();

/** @param name says all that the automaton depends on. */
export function keptDfa<Made extends Dfa | null>(name: string, make: () => Made): Dfa | Made {
  const known = kept.get(name);
  if (known !== undefined) return known;
  const made = make();
  if (kept.size >= MAX_KEPT) kept.clear();
  if (made !== null) kept.set(name, made);
  return made;
}
