// Matches names against regular expressions that a model's files bring, which somebody else has written: in a bounded time.

import { createContext, Script } from 'node:vm';
import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { shortened } from './preview.ts';

/** For all names and patterns together. */
const DEADLINE_MS = 1000;

/** Characters of all patterns in a message. */
const MOST_SHOWN = 500;

const indices = z.array(z.int());
const script = new Script(`
  const expressions = patterns.map((pattern) => new RegExp(pattern));
  names.map((name) => expressions.findIndex((expression) => expression.test(name)));
`);

/**
 * For each name, the index of the first pattern that matches it, or -1.
 * @param where the patterns are, for messages.
 * @throws ModelLoadError for a pattern that is no regular expression, or takes too long.
 */
export function firstMatches(
  names: readonly string[],
  patterns: readonly string[],
  where: string,
): readonly number[] {
  if (patterns.length === 0) return names.map(() => -1);
  try {
    return indices.parse(script.runInContext(createContext({ names, patterns }), { timeout: DEADLINE_MS }));
  } catch (cause) {
    const isLate = typeof cause === 'object' && cause !== null && 'code' in cause;
    const reason = isLate
      ? `takes longer than ${DEADLINE_MS / 1000} s to match`
      : 'is no regular expression of JavaScript';
    throw new ModelLoadError(
      `${where} ${reason}: ${shortened(patterns.join(', '), MOST_SHOWN)}; name the modules instead`,
      {
        cause,
      },
    );
  }
}
