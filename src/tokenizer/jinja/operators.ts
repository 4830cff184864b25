// Arithmetic as Python has it: whole numbers stay whole, a division gives a float, texts and lists add up.

import { TemplateError } from './errors.ts';
import { defined, type Expression } from './expressions.ts';
import { percentFormat } from './format.ts';
import { checkedText, checkLength, checkTextLength } from './limits.ts';
import { Float, integer, isInteger, numberOf, Tuple, typeName, type Value } from './values.ts';

type Operation = (left: Value, right: Value) => Value;

/** One operator on doubles, and on whole numbers of any size. */
interface Arithmetic {
  readonly sign: string;
  doubles(left: number, right: number): number;
  wholes(left: bigint, right: bigint): bigint;
}

const PLUS: Arithmetic = { sign: '+', doubles: (a, b) => a + b, wholes: (a, b) => a + b };
const MINUS: Arithmetic = { sign: '-', doubles: (a, b) => a - b, wholes: (a, b) => a - b };
const TIMES: Arithmetic = { sign: '*', doubles: (a, b) => a * b, wholes: (a, b) => a * b };
const POWER: Arithmetic = { sign: '**', doubles: (a, b) => a ** b, wholes: (a, b) => a ** b };
const FLOOR: Arithmetic = {
  sign: '//',
  doubles: (a, b) => Math.floor(divide(a, b)),
  wholes: (a, b) => (a - modulo(a, b)) / b,
};
const MODULO: Arithmetic = {
  sign: '%',
  doubles: (a, b) => a - Math.floor(divide(a, b)) * b,
  wholes: modulo,
};

/** By operator. */
export const OPERATIONS: ReadonlyMap<string, Operation> = new Map<string, Operation>([
  ['+', plus],
  ['-', (left, right) => arithmetic(MINUS, left, right)],
  ['*', (left, right) => repetition(left, right) ?? arithmetic(TIMES, left, right)],
  ['/', (left, right) => new Float(divide(...operands('/', left, right)))],
  ['//', (left, right) => arithmetic(FLOOR, left, right)],
  ['%', remainder],
  ['**', (left, right) => arithmetic(POWER, left, right)],
]);

export function binary(operation: Operation, left: Expression, right: Expression): Expression {
  return (scope) => operation(left(scope), right(scope));
}

export function signed(sign: 1 | -1, operand: Expression): Expression {
  return (scope) => {
    const value = operand(scope);
    const number = numberOf(defined(value));
    if (number === null) throw new TemplateError(`bad operand type for a sign: '${typeName(value)}'`);
    if (value instanceof Float) return new Float(sign * number);
    return arithmetic(TIMES, sign, value);
  };
}

export function plus(left: Value, right: Value): Value {
  return addition(left, right) ?? arithmetic(PLUS, left, right);
}

export function remainder(left: Value, right: Value): Value {
  return typeof left === 'string' ? percentFormat(left, defined(right)) : arithmetic(MODULO, left, right);
}

function arithmetic(operator: Arithmetic, left: Value, right: Value): Value {
  const [a, b] = operands(operator.sign, left, right);
  const result = operator.doubles(a, b);
  if (left instanceof Float || right instanceof Float) return new Float(result);
  // Which bounds whole numbers, too.
  if (!Number.isFinite(result)) {
    throw new TemplateError(`the result of ${operator.sign} is no finite number`);
  }
  if (!Number.isInteger(result)) return new Float(result);
  if ([a, b, result].every(Number.isSafeInteger)) return integer(result);
  return integer(operator.wholes(wholeOf(left), wholeOf(right)));
}

/** Both as doubles. */
function operands(sign: string, left: Value, right: Value): [number, number] {
  const [a, b] = [numberOf(defined(left)), numberOf(defined(right))];
  if (a !== null && b !== null) return [a, b];
  throw new TemplateError(
    `unsupported operand type(s) for ${sign}: '${typeName(left)}' and '${typeName(right)}'`,
  );
}

function wholeOf(value: Value): bigint {
  return BigInt(isInteger(value) ? value : Number(value));
}

function divide(a: number, b: number): number {
  if (b === 0) throw new TemplateError('division by zero');
  return a / b;
}

/** Of the sign of `b`. */
function modulo(a: bigint, b: bigint): bigint {
  const rest = a % b;
  return rest !== 0n && rest < 0n !== b < 0n ? rest + b : rest;
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
