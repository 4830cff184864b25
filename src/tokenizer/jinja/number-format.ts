// Numbers in the formats of C and Python: `d`, `f`, `e`, `g`, `x`, `o`, `b` and those in capitals.

import { type Integer, whole } from './values.ts';

/** Digits behind the point that JavaScript writes, all of them as they are in the number. */
const MOST_DIGITS = 100;

type Write = (number: Integer, precision: number) => string;

/** How a number that is not negative is written, by the letter of the format. */
const FORMATS: ReadonlyMap<string, Write> = new Map<string, Write>([
  ['d', (number) => String(whole(number))],
  ['x', (number) => whole(number).toString(16)],
  ['o', (number) => whole(number).toString(8)],
  ['b', (number) => whole(number).toString(2)],
  ['f', (number, precision) => fixed(Number(number), precision)],
  ['e', (number, precision) => exponential(Number(number), precision)],
  ['g', (number, precision) => general(Number(number), Math.max(1, precision))],
]);

/** The digits of `number`, without a sign; null where there is no such format. */
export function digitsOf(number: Integer, kind: string, precision = 6): string | null {
  const write = FORMATS.get(kind.toLowerCase());
  if (write === undefined || 'DOB'.includes(kind)) return null;
  const digits = Number.isFinite(Number(number))
    ? write(number, Math.min(MOST_DIGITS, precision))
    : infinite(number);
  return kind === kind.toLowerCase() ? digits : digits.toUpperCase();
}

function infinite(number: Integer): string {
  return Number.isNaN(number) ? 'nan' : 'inf';
}

function fixed(number: number, precision: number): string {
  if (number >= 1e21) return String(BigInt(number)) + (precision > 0 ? `.${'0'.repeat(precision)}` : '');
  return halfToEven(number.toFixed(precision), number.toFixed(MOST_DIGITS), precision);
}

function exponential(number: number, precision: number): string {
  const [rounded = '', power = ''] = number.toExponential(precision).split('e');
  const [exact = '', floor = ''] = number.toExponential(MOST_DIGITS).split('e');
  const digits = halfToEven(rounded, exact, precision);
  return `${digits}e${(digits === rounded ? power : floor).replace(/^([+-])(\d)$/, '$10$2')}`;
}

/** So many digits in all, as short as that is. */
function general(number: number, numDigits: number): string {
  const scientific = exponential(number, numDigits - 1);
  const power = Number(scientific.split('e')[1]);
  const text = power < -4 || power >= numDigits ? scientific : fixed(number, numDigits - 1 - power);
  return text.replace(/\.(\d*?)0*(?=e|$)/, (_, kept: string) => (kept === '' ? '' : `.${kept}`));
}

/** JavaScript rounds a half up, Python to the even digit. */
function halfToEven(rounded: string, exact: string, precision: number): string {
  const end = exact.indexOf('.') + (precision === 0 ? 0 : precision + 1);
  const below = exact.slice(0, end);
  return /^\.?50*$/.test(exact.slice(end)) && /[02468]$/.test(below) ? below : rounded;
}
