// A constraint becomes a grammar: plain data that crosses threads.

import type { Constraint } from './constraint.ts';
import type { Grammar } from './grammar.ts';
import { type CompileLimits, ConstraintError, DEFAULT_LIMITS } from './limits.ts';

/** @throws ConstraintError where the constraint cannot be enforced exactly or costs more than the limits allow. */
export function compile(constraint: Constraint, limits: CompileLimits = DEFAULT_LIMITS): Grammar {
  throw new ConstraintError(`${constraint.kind}: not available ${limits.maxDepth}`);
}
