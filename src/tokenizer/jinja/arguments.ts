// The arguments of a call, and how functions name theirs.

import { TemplateError } from './errors.ts';
import type { Arguments, Value } from './values.ts';

export const NO_ARGUMENTS: Arguments = { positional: [], keywords: new Map() };

/**
 * The arguments in the order of `names`, undefined where one was left out.
 * @throws TemplateError for one too many, or one that has no such name.
 */
export function bind(
  { positional, keywords }: Arguments,
  names: readonly string[],
  what: string,
): (Value | undefined)[] {
  if (positional.length > names.length) {
    throw new TemplateError(`${what} takes at most ${names.length} arguments (${positional.length} given)`);
  }
  const bound: (Value | undefined)[] = names.map((_, index) => positional[index]);
  for (const [name, value] of keywords) {
    const index = names.indexOf(name);
    if (index < 0) throw new TemplateError(`${what} got an unexpected keyword argument '${name}'`);
    if (bound[index] !== undefined)
      throw new TemplateError(`${what} got multiple values for argument '${name}'`);
    bound[index] = value;
  }
  return bound;
}

/** A filter, a test or a method: `self` is the value that it is applied to. */
export type Builtin = (self: Value, args: Arguments) => Value;

/** One whose arguments have names; a parameter that is left out keeps its JavaScript default. */
export function builtin(
  what: string,
  names: readonly string[],
  call: (self: Value, ...args: (Value | undefined)[]) => Value,
): Builtin {
  return (self, args) => call(self, ...bind(args, names, what));
}

export function textOf(value: Value, what: string): string {
  if (typeof value === 'string') return value;
  throw new TemplateError(`${what} must be a text`);
}

export function integerOf(value: Value, what: string): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  throw new TemplateError(`${what} must be an integer`);
}
