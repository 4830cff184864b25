// What each expression of the language computes: a function of the scope that it is read in.

import { type Builtin, NO_ARGUMENTS } from './arguments.ts';
import { TemplateError } from './errors.ts';
import { checkedText } from './limits.ts';
import { Loop } from './loop.ts';
import { getAttribute, getItem } from './members.ts';
import { print } from './print.ts';
import type { Scope } from './scope.ts';
import {
  type Arguments,
  compare,
  type Dict,
  isEqual,
  isTruthy,
  iterate,
  keyOf,
  orUndefined,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

export type Expression = (scope: Scope) => Value;

export function literal(value: Value): Expression {
  return () => value;
}

export function variable(name: string): Expression {
  const reason = `'${name}' is undefined`;
  return (scope) => orUndefined(scope.get(name), reason);
}

export function list(items: readonly Expression[]): Expression {
  return (scope) => items.map((item) => item(scope));
}

export function tupleOf(items: readonly Expression[]): Expression {
  return (scope) => tuple(...items.map((item) => item(scope)));
}

export function dict(entries: readonly (readonly [Expression, Expression])[]): Expression {
  return (scope) => {
    const made: Dict = new Map();
    for (const [key, value] of entries) made.set(keyOf(key(scope)), value(scope));
    return made;
  };
}

export function attribute(object: Expression, name: string): Expression {
  return (scope) => getAttribute(object(scope), name);
}

export function item(object: Expression, key: Expression): Expression {
  return (scope) => getItem(object(scope), key(scope));
}

export function not(operand: Expression): Expression {
  return (scope) => !isTruthy(operand(scope));
}

export function and(left: Expression, right: Expression): Expression {
  return (scope) => {
    const value = left(scope);
    return isTruthy(value) ? right(scope) : value;
  };
}

export function or(left: Expression, right: Expression): Expression {
  return (scope) => {
    const value = left(scope);
    return isTruthy(value) ? value : right(scope);
  };
}

/** `yes if test else no`; without an else there is nothing. */
export function conditional(test: Expression, yes: Expression, no: Expression | null): Expression {
  return (scope) => {
    if (isTruthy(test(scope))) return yes(scope);
    return no === null ? new Undefined('the condition is false and there is no else') : no(scope);
  };
}

/** `~` prints its operands one after the other. */
export function concatenation(parts: readonly Expression[]): Expression {
  return (scope) => {
    let text = '';
    for (const part of parts) text = checkedText(text + print(part(scope)));
    return text;
  };
}

export type Comparison = (left: Value, right: Value) => boolean;

/** By operator. */
export const COMPARISONS: ReadonlyMap<string, Comparison> = new Map<string, Comparison>([
  ['==', isEqual],
  ['!=', (left, right) => !isEqual(left, right)],
  ['<', (left, right) => compare(defined(left), defined(right), '<') < 0],
  ['<=', (left, right) => compare(defined(left), defined(right), '<=') <= 0],
  ['>', (left, right) => compare(defined(left), defined(right), '>') > 0],
  ['>=', (left, right) => compare(defined(left), defined(right), '>=') >= 0],
  ['in', (left, right) => contains(right, left)],
  ['not in', (left, right) => !contains(right, left)],
]);

/** `a < b < c` asks a < b and b < c. */
export function comparison(
  first: Expression,
  rest: readonly (readonly [Comparison, Expression])[],
): Expression {
  return (scope) => {
    let left = first(scope);
    for (const [holds, operand] of rest) {
      const right = operand(scope);
      if (!holds(left, right)) return false;
      left = right;
    }
    return true;
  };
}

function contains(container: Value, value: Value): boolean {
  if (typeof container === 'string') {
    if (typeof value === 'string') return container.includes(value);
    throw new TemplateError(`'in <string>' requires string as left operand, not ${typeName(value)}`);
  }
  if (container instanceof Map) return !(value instanceof Undefined) && container.has(keyOf(value));
  for (const element of iterate(container)) if (isEqual(element, value)) return true;
  return false;
}

/** @throws TemplateError for the value of a name that nothing has. */
export function defined(value: Value): Value {
  if (value instanceof Undefined) throw new TemplateError(value.reason);
  return value;
}

/** The arguments as they are written: f(positional, *spread, name=value, **spread). */
export interface ArgumentList {
  readonly positional: readonly { readonly value: Expression; readonly isSpread: boolean }[];
  readonly keywords: readonly { readonly name: string | null; readonly value: Expression }[];
}

export const EMPTY_LIST: ArgumentList = { positional: [], keywords: [] };

export function evaluateArguments({ positional, keywords }: ArgumentList, scope: Scope): Arguments {
  if (positional.length === 0 && keywords.length === 0) return NO_ARGUMENTS;
  const values: Value[] = [];
  for (const { value, isSpread } of positional) {
    if (isSpread) for (const element of iterate(value(scope))) values.push(element);
    else values.push(value(scope));
  }
  const named = new Map<string, Value>();
  for (const { name, value } of keywords) {
    for (const [key, argument] of name === null ? spread(value(scope)) : [[name, value(scope)] as const]) {
      if (named.has(key)) throw new TemplateError(`got multiple values for keyword argument '${key}'`);
      named.set(key, argument);
    }
  }
  return { positional: values, keywords: named };
}

function spread(value: Value): [string, Value][] {
  if (!(value instanceof Map)) {
    throw new TemplateError(`argument after ** must be a mapping, not ${typeName(value)}`);
  }
  return [...value].map(([key, argument]) => [String(key), argument]);
}

export function call(callee: Expression, args: ArgumentList): Expression {
  return (scope) => callValue(callee(scope), evaluateArguments(args, scope));
}

export function callValue(callee: Value, args: Arguments): Value {
  if (typeof callee === 'function') return callee(args);
  if (callee instanceof Loop) return callee.recurse(args);
  throw new TemplateError(`'${typeName(defined(callee))}' object is not callable`);
}

/** A filter or a test. */
export function application(apply: Builtin, operand: Expression, args: ArgumentList): Expression {
  return (scope) => apply(operand(scope), evaluateArguments(args, scope));
}
