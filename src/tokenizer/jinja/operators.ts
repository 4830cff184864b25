// Arithmetic as Python has it: whole numbers stay whole, a division gives a float, texts and lists add up.

import { TemplateError } from './errors.ts';
import { defined, type Expression } from './expressions.ts';
import { percentFormat } from './format.ts';
import { checkedText, checkLength, checkTextLength } from './limits.ts';
import { Float, numberOf, Tuple, typeName, type Value } from './values.ts';

type Operation = (left: Value, right: Value) => Value;

/** By operator. */
export const OPERATIONS: ReadonlyMap<string, Operation> = new Map<string, Operation>([
  ['+', (left, right) => addition(left, right) ?? arithmetic('+', left, right, (a, b) => a + b)],
  ['-', (left, right) => arithmetic('-', left, right, (a, b) => a - b)],
  ['*', (left, right) => repetition(left, right) ?? arithmetic('*', left, right, (a, b) => a * b)],
  ['/', (left, right) => new Float(numberOf(arithmetic('/', left, right, divide))!)],
  ['//', (left, right) => arithmetic('//', left, right, (a, b) => Math.floor(divide(a, b)))],
  ['%', remainder],
  ['**', power],
]);

export function binary(operation: Operation, left: Expression, right: Expression): Expression {
  return (scope) => operation(left(scope), right(scope));
}

export function signed(sign: 1 | -1, operand: Expression): Expression {
  return (scope) => {
    const value = operand(scope);
    const number = numberOf(defined(value));
    if (number === null) throw new TemplateError(`bad operand type for a sign: '${typeName(value)}'`);
    return value instanceof Float ? new Float(sign * number) : sign * number;
  };
}

function arithmetic(
  operator: string,
  left: Value,
  right: Value,
  compute: (a: number, b: number) => number,
): Value {
  const [a, b] = [numberOf(defined(left)), numberOf(defined(right))];
  if (a === null || b === null) {
    throw new TemplateError(
      `unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`,
    );
  }
  const result = compute(a, b);
  if (left instanceof Float || right instanceof Float) return new Float(result);
  return Number.isInteger(result) ? normalZero(result) : new Float(result);
}

/** A whole number has no negative zero. */
function normalZero(value: number): number {
  return value === 0 ? 0 : value;
}

function divide(a: number, b: number): number {
  if (b === 0) throw new TemplateError('division by zero');
  return a / b;
}

function remainder(left: Value, right: Value): Value {
  if (typeof left === 'string') return percentFormat(left, defined(right));
  return arithmetic('%', left, right, (a, b) => a - Math.floor(divide(a, b)) * b);
}

function power(left: Value, right: Value): Value {
  return arithmetic('**', left, right, (a, b) => {
    const result = a ** b;
    if (Number.isFinite(result)) return result;
    throw new TemplateError('the result of ** is no finite number');
  });
}

function addition(left: Value, right: Value): Value | null {
  if (typeof left === 'string') {
    if (typeof right === 'string') return checkedText(left + right);
    throw new TemplateError(`can only concatenate str (not "${typeName(defined(right))}") to str`);
  }
  if (!Array.isArray(left) || !Array.isArray(right)) return null;
  if (left instanceof Tuple !== right instanceof Tuple) return null;
  checkLength(left.length + right.length);
  return left.concat(right);
}

function repetition(left: Value, right: Value): Value | null {
  if (typeof left === 'number') return typeof right === 'number' ? null : repetition(right, left);
  if (typeof right !== 'number') return null;
  const times = Math.max(0, right);
  if (typeof left === 'string') {
    checkTextLength(left.length * times);
    return left.repeat(times);
  }
  if (!Array.isArray(left)) return null;
  checkLength(left.length * times);
  const repeated = left.slice(0, 0);
  for (let round = 0; round < times; round++) for (const item of left) repeated.push(item);
  return repeated;
}
