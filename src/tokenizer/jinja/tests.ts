// The tests of the language: the names after `is`, and in select('...').

import { type Builtin, builtin } from './arguments.ts';
import { TemplateError } from './errors.ts';
import { COMPARISONS, defined } from './expressions.ts';
import { remainder } from './operators.ts';
import { isEqual, isInteger, numberOf, Stream, Undefined, type Value } from './values.ts';

function test(name: string, holds: (value: Value) => boolean): [string, Builtin] {
  return [name, builtin(`is ${name}`, [], holds)];
}

function testWith(name: string, holds: (value: Value, other: Value) => boolean): [string, Builtin] {
  const what = `is ${name}`;
  const apply = builtin(what, ['other'], (value, other) => {
    if (other === undefined) throw new TemplateError(`${what} needs an argument`);
    return holds(value, other);
  });
  return [name, apply];
}

function comparisons(operator: string, ...names: readonly string[]): [string, Builtin][] {
  const holds = COMPARISONS.get(operator)!;
  return [operator, ...names].map((name) => testWith(name, holds));
}

function leaves(value: Value, divisor: Value, rest: number): boolean {
  return isEqual(remainder(defined(value), divisor), rest);
}

function isCased(value: Value, other: 'toLowerCase' | 'toUpperCase'): boolean {
  if (typeof value !== 'string') return false;
  const changed = other === 'toLowerCase' ? value.toUpperCase() : value.toLowerCase();
  return value !== changed && value === value[other]();
}

export const TESTS: ReadonlyMap<string, Builtin> = new Map([
  ...comparisons('==', 'eq', 'equalto'),
  ...comparisons('!=', 'ne'),
  ...comparisons('<', 'lt', 'lessthan'),
  ...comparisons('<=', 'le'),
  ...comparisons('>', 'gt', 'greaterthan'),
  ...comparisons('>=', 'ge'),
  testWith('in', COMPARISONS.get('in')!),
  testWith('sameas', (value, other) => value === other),
  testWith('divisibleby', (value, divisor) => leaves(value, divisor, 0)),
  test('odd', (value) => leaves(value, 2, 1)),
  test('even', (value) => leaves(value, 2, 0)),
  test('boolean', (value) => typeof value === 'boolean'),
  test('callable', (value) => typeof value === 'function'),
  test('defined', (value) => !(value instanceof Undefined)),
  test('undefined', (value) => value instanceof Undefined),
  test('false', (value) => value === false),
  test('true', (value) => value === true),
  test('none', (value) => value === null),
  test('float', (value) => numberOf(value) !== null && typeof value === 'object'),
  test('integer', (value) => isInteger(value)),
  test('number', (value) => numberOf(value) !== null),
  test('string', (value) => typeof value === 'string'),
  test('mapping', (value) => value instanceof Map),
  test('sequence', (value) => isSequence(value)),
  test('iterable', (value) => isSequence(value) || value instanceof Stream),
  test('lower', (value) => isCased(value, 'toLowerCase')),
  test('upper', (value) => isCased(value, 'toUpperCase')),
]);

/** Nothing is a sequence as well: it is an empty one. */
function isSequence(value: Value): boolean {
  return (
    typeof value === 'string' || Array.isArray(value) || value instanceof Map || value instanceof Undefined
  );
}

/** The test `name`, with the arguments that follow it. */
export function predicate(name: Value, args: readonly Value[]): (value: Value) => boolean {
  const apply = typeof name === 'string' ? TESTS.get(name) : undefined;
  if (apply === undefined) throw new TemplateError(`there is no test ${String(name)}`);
  const given = { positional: args, keywords: new Map() };
  return (value) => isEqual(apply(value, given), true);
}
