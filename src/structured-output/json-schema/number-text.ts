// Sets of numbers as the JSON texts that write them. Bounds are compared digit by digit: reading a text rounds it, but never
// past another double, so a text within bounds is a number within bounds.

import type { Budget } from '../limits.ts';
import { type Dfa, DfaBuilder, intersect, subtract } from '../regular/dfa.ts';
import {
  chars,
  choice,
  EMPTY,
  NOTHING,
  oneOf,
  optional,
  type Regular,
  repeat,
  sequence,
  text,
  toDfa,
} from '../regular/regular.ts';
import { plainDigits, toDecimal } from './doubles.ts';
import { keptDfa } from './kept-dfas.ts';
import type { NumberSet } from './values.ts';

/** Digits before the point, as many as JSON.stringify writes at most. */
const MAX_WHOLE = 21;
/** Digits after the point: those of the smallest number that JSON.stringify writes without an exponent. */
const MAX_FRACTION = 25;
/** Digits of a number in which two texts are never the same double. */
const EXACT_DIGITS = 15;
/** States of the remainders of one multipleOf. */
const MAX_REMAINDERS = 10_000;
/** Powers of ten that JSON.stringify writes with an exponent, and no text of them is too large for a double. */
const LARGE: readonly [number, number] = [21, 307];
const SMALL: readonly [number, number] = [7, 324];

const DIGIT = oneOf('0123456789');
const POSITIVE_DIGIT = oneOf('123456789');
const digits = (min: number, max: number): Regular => (max < min ? NOTHING : repeat(DIGIT, min, max));

/** Any number, in any spelling; none that a double cannot hold. */
export const ANY_NUMBER: Regular = sequence(
  optional(text('-')),
  choice(
    sequence(
      choice(text('0'), sequence(POSITIVE_DIGIT, digits(0, MAX_WHOLE))),
      optional(fractionOf(MAX_FRACTION)),
    ),
    sequence(
      DIGIT,
      optional(fractionOf(MAX_FRACTION)),
      oneOf('eE'),
      choice(
        sequence(optional(text('+')), choice(digits(1, 2), range(100, LARGE[1]))),
        sequence(text('-'), choice(digits(1, 2), range(100, SMALL[1]))),
      ),
    ),
    // The largest double begins with 1.79769.
    sequence(
      text('1'),
      optional(sequence(text('.'), oneOf('0123456'), digits(0, MAX_FRACTION))),
      text('e+308'),
    ),
  ),
);

function fractionOf(max: number): Regular {
  return sequence(text('.'), digits(1, max));
}

/** The whole numbers from `min` to `max`, without zeros at the front. */
function range(min: number, max: number): Regular {
  return choice(...Array.from({ length: max - min + 1 }, (_, i) => text(String(min + i))));
}

/** The JSON texts of the numbers of a set. */
export function numberDfa(set: NumberSet, budget: Budget): Dfa | null {
  const { min, max, shape, multiples, nonMultiples } = set;
  const name = `numbers ${min} ${max} ${shape} ${multiples.join()} ${nonMultiples.join()}`;
  return keptDfa(name, () => makeDfa(set, budget));
}

function makeDfa(set: NumberSet, budget: Budget): Dfa | null {
  const isMultiple = set.multiples.length + set.nonMultiples.length > 0;
  if (set.min === -Infinity && set.max === Infinity && set.shape === 'any' && !isMultiple)
    return toDfa(ANY_NUMBER, budget);
  if (set.min === set.max && !isMultiple) return toDfa(oneNumber(set.min, set.shape), budget);
  const style: TextStyle = { shape: set.shape, isExact: isMultiple };
  const negative = magnitudes(Math.max(0, -set.max), -set.min, style);
  const positive = magnitudes(Math.max(0, set.min), set.max, style);
  let dfa = toDfa(choice(sequence(text('-'), negative), positive), budget);
  for (const divisor of set.multiples) dfa = intersect(dfa, multiplesDfa(divisor, budget), budget);
  for (const divisor of set.nonMultiples) dfa = subtract(dfa, multiplesDfa(divisor, budget), budget);
  return dfa;
}

/** As a program writes it: among all spellings of 1 a model could go on with zeros, and readers take 1.0 for a fraction. */
function oneNumber(value: number, shape: NumberSet['shape']): Regular {
  const fits = shape === 'any' || (shape === 'integer') === Number.isInteger(value);
  return fits ? text(JSON.stringify(value)) : NOTHING;
}

interface TextStyle {
  readonly shape: NumberSet['shape'];
  /** Only texts whose digits are the number's: no exponents, no more digits than a double holds. */
  readonly isExact: boolean;
}

/** Numbers without a sign, from `min` to `max`. */
function magnitudes(min: number, max: number, style: TextStyle): Regular {
  if (min > max) return NOTHING;
  return choice(
    plain(min, max, style),
    ...(style.isExact ? [] : [large(min, max, style), small(min, max, style)]),
  );
}

/** Without an exponent. */
function plain(min: number, max: number, { shape, isExact }: TextStyle): Regular {
  const maxWhole = isExact || shape === 'fraction' ? EXACT_DIGITS : MAX_WHOLE;
  const low = plainDigits(toDecimal(min));
  const fraction = (whole: string, from: string | null, to: string | null): Regular =>
    sequence(wholeText(whole, maxWhole), fractionIn(shape, isExact, Math.max(1, whole.length), from, to));
  const between = (from: string, to: string | null): Regular =>
    wholesBetween(from, to, maxWhole, (length) => fractionIn(shape, isExact, length, null, null));
  if (max === Infinity || plainDigits(toDecimal(max)).whole.length > maxWhole)
    return choice(fraction(low.whole, low.fraction, null), between(increment(low.whole), null));
  const high = plainDigits(toDecimal(max));
  if (low.whole === high.whole) return fraction(low.whole, low.fraction, high.fraction);
  return choice(
    fraction(low.whole, low.fraction, null),
    between(increment(low.whole), decrement(high.whole)),
    fraction(high.whole, null, high.fraction),
  );
}

function wholeText(whole: string, maxWhole: number): Regular {
  return whole.length > maxWhole ? NOTHING : text(whole === '' ? '0' : whole);
}

function increment(whole: string): string {
  return String(BigInt(whole === '' ? '0' : whole) + 1n);
}

function decrement(whole: string): string {
  return String(BigInt(whole === '' ? '0' : whole) - 1n);
}

/** Whole numbers of at least one between the two, which is a decimal text; `to` null: without end. */
function wholesBetween(
  from: string,
  to: string | null,
  maxLength: number,
  tail: (length: number) => Regular,
): Regular {
  const last = to ?? '9'.repeat(maxLength);
  if (from.length > maxLength || BigInt(from) > BigInt(last)) return NOTHING;
  const options: Regular[] = [];
  for (let length = from.length; length <= last.length; length += 1) {
    const low = length === from.length ? from : `1${'0'.repeat(length - 1)}`;
    const high = length === last.length ? last : '9'.repeat(length);
    options.push(sequence(sameLength(low, high), tail(length)));
  }
  return choice(...options);
}

/** Runs of digits of one length, between the two. */
function sameLength(low: string, high: string): Regular {
  if (low === '') return EMPTY;
  const rest = low.length - 1;
  const [first, last] = [Number(low[0]), Number(high[0])];
  if (/^0*$/.test(low.slice(1)) && /^9*$/.test(high.slice(1)))
    return sequence(digitRange(first, last), digits(rest, rest));
  if (first === last) return sequence(text(low[0]!), sameLength(low.slice(1), high.slice(1)));
  const between =
    first + 1 <= last - 1 ? sequence(digitRange(first + 1, last - 1), digits(rest, rest)) : NOTHING;
  return choice(
    sequence(text(low[0]!), sameLength(low.slice(1), '9'.repeat(rest))),
    between,
    sequence(text(high[0]!), sameLength('0'.repeat(rest), high.slice(1))),
  );
}

function digitRange(first: number, last: number): Regular {
  return chars([0x30 + first, 0x30 + last]);
}

/** What follows the whole digits: nothing, or a point and digits; bounds are digits after the point, null where there is none. */
function fractionIn(
  shape: NumberSet['shape'],
  isExact: boolean,
  wholeLength: number,
  low: string | null,
  high: string | null,
): Regular {
  // More digits may be read as a whole number, or as one that is no multiple.
  const length = isExact || shape === 'fraction' ? EXACT_DIGITS - wholeLength : MAX_FRACTION;
  const hasWhole = low === null || low === '';
  if (shape === 'integer') return hasWhole ? EMPTY : NOTHING;
  const fraction = sequence(text('.'), fractionDigits(low ?? '', high, length, true));
  if (shape === 'any') return hasWhole ? choice(EMPTY, fraction) : fraction;
  return sequence(text('.'), fractionDigits(low ?? '', high, length, true, true));
}

/**
 * Digits after the point whose value is at least `low` and at most `high`, at least one digit where `isFirst`.
 * @param isPositive not all of them are zeros.
 */
function fractionDigits(
  low: string,
  high: string | null,
  left: number,
  isFirst: boolean,
  isPositive = false,
): Regular {
  const mayEnd = !isFirst && low === '' && !isPositive;
  if (left === 0) return mayEnd ? EMPTY : NOTHING;
  if (low === '' && high === null) {
    if (!isPositive) return digits(isFirst ? 1 : 0, left);
    return choice(
      ...Array.from({ length: left }, (_, zeros) =>
        sequence(text('0'.repeat(zeros)), POSITIVE_DIGIT, digits(0, left - zeros - 1)),
      ),
    );
  }
  const lowDigit = Number(low[0] ?? '0');
  const highDigit = high === null ? 9 : Number(high[0] ?? '0');
  const options: Regular[] = mayEnd ? [EMPTY] : [];
  for (let digit = lowDigit; digit <= highDigit; digit += 1) {
    const restLow = digit === lowDigit ? low.slice(1) : '';
    const restHigh = high !== null && digit === highDigit ? high.slice(1) : null;
    const rest = fractionDigits(restLow, restHigh, left - 1, false, isPositive && digit === 0);
    options.push(sequence(digitRange(digit, digit), rest));
  }
  return choice(...options);
}

/** With a positive exponent, which only whole numbers of many digits have. */
function large(min: number, max: number, { shape }: TextStyle): Regular {
  if (shape === 'fraction') return NOTHING;
  // So many digits that no fraction is left.
  return scientific(min, max, LARGE, 1, shape === 'integer' ? LARGE[0] - 4 : MAX_FRACTION);
}

/** With a negative exponent, which only fractions have. */
function small(min: number, max: number, { shape }: TextStyle): Regular {
  // Anything smaller is read as 0, which is no fraction.
  return shape === 'integer'
    ? NOTHING
    : scientific(Math.max(min, Number.MIN_VALUE), max, SMALL, -1, MAX_FRACTION);
}

function scientific(
  min: number,
  max: number,
  [nearest, farthest]: readonly [number, number],
  sign: 1 | -1,
  maxFraction: number,
): Regular {
  const low = scientificParts(min);
  const high = scientificParts(max);
  const [first, last] = sign === 1 ? [nearest, farthest] : [-farthest, -nearest];
  const options: Regular[] = [];
  const power = (exponent: number): Regular => text(`e${exponent < 0 ? '' : '+'}${exponent}`);
  const mantissas = (from: string, to: string | null): Regular => {
    const whole = digitRange(1, 9);
    const tail = optional(fractionOf(maxFraction));
    if (from === '1' && to === null) return sequence(whole, tail);
    const [f, t] = [from, to ?? '9'];
    const fraction = (bounds: [string, string | null]): Regular =>
      choice(
        bounds[0] === '' ? EMPTY : NOTHING,
        sequence(text('.'), fractionDigits(bounds[0], bounds[1], maxFraction, true)),
      );
    return choice(
      ...Array.from({ length: 9 }, (_, i) => i + 1).flatMap((digit) => {
        if (digit < Number(f[0]) || digit > Number(t[0])) return [];
        const bounds: [string, string | null] = [
          digit === Number(f[0]) ? f.slice(1) : '',
          to !== null && digit === Number(t[0]) ? t.slice(1) : null,
        ];
        return [sequence(digitRange(digit, digit), fraction(bounds))];
      }),
    );
  };
  const inside: number[] = [];
  for (let exponent = first; exponent <= last; exponent += 1) {
    if (exponent < low.exponent || exponent > high.exponent) continue;
    if (exponent > low.exponent && exponent < high.exponent) inside.push(exponent);
    else {
      const from = exponent === low.exponent ? low.digits : '1';
      const to = exponent === high.exponent ? high.digits : null;
      options.push(sequence(mantissas(from, to), power(exponent)));
    }
  }
  if (inside.length > 0) {
    const exponents = inside.map(Math.abs);
    const [from, to] = [Math.min(...exponents), Math.max(...exponents)];
    options.push(sequence(mantissas('1', null), text(sign === 1 ? 'e+' : 'e-'), range(from, to)));
  }
  return choice(...options);
}

/** value = d.ddd times ten to the power of the exponent. */
function scientificParts(value: number): { digits: string; exponent: number } {
  if (value === 0) return { digits: '1', exponent: -Infinity };
  if (value === Infinity) return { digits: '9', exponent: Infinity };
  const { digits: all, point } = toDecimal(value);
  return { digits: all, exponent: point - 1 };
}

/** Numbers without an exponent that are multiples: the remainder is kept digit by digit. */
function multiplesDfa(divisor: number, budget: Budget): Dfa | null {
  const { whole, fraction } = plainDigits(toDecimal(divisor));
  const places = fraction.length;
  const unit = BigInt(whole + fraction);
  if (unit * BigInt(places + 2) > BigInt(MAX_REMAINDERS))
    budget.refuse(`has a multipleOf of ${divisor}, which is too large to be enforced`);
  return new MultiplesDfa(Number(unit), places, budget).build();
}

class MultiplesDfa {
  readonly #unit: number;
  readonly #places: number;
  readonly #builder: DfaBuilder;

  constructor(unit: number, places: number, budget: Budget) {
    this.#unit = unit;
    this.#places = places;
    // Classes: other bytes, the digits, the point, the sign.
    const classes = Uint8Array.from({ length: 256 }, (_, byte) => {
      if (byte >= 0x30 && byte <= 0x39) return byte - 0x30 + 1;
      return byte === 0x2e ? 11 : byte === 0x2d ? 12 : 0;
    });
    this.#builder = new DfaBuilder(classes, 13, budget);
  }

  build(): Dfa | null {
    const start = this.#builder.add(-1);
    const unsigned = this.#builder.add(-1);
    const phases = Array.from({ length: this.#places + 2 }, (_, phase) => this.#addPhase(phase));
    for (const state of [start, unsigned])
      for (let digit = 0; digit < 10; digit += 1)
        this.#builder.row(state)[digit + 1] = phases[0]![digit % this.#unit]!;
    this.#builder.row(start)[12] = unsigned;
    for (const [phase, states] of phases.entries()) this.#connectPhase(phase, states, phases);
    return this.#builder.build();
  }

  /** Phase 0: digits before the point; phase n: after the point, n - 1 digits later. */
  #addPhase(phase: number): number[] {
    const missing = this.#places - Math.max(0, phase - 1);
    return Array.from({ length: this.#unit }, (_, remainder) => {
      const all = (BigInt(remainder) * 10n ** BigInt(missing)) % BigInt(this.#unit);
      return this.#builder.add(all === 0n ? 0 : -1);
    });
  }

  #connectPhase(phase: number, states: readonly number[], phases: readonly (readonly number[])[]): void {
    const isLast = phase === this.#places + 1;
    for (const [remainder, state] of states.entries()) {
      const row = this.#builder.row(state);
      if (phase === 0) row[11] = phases[1]![remainder]!;
      for (let digit = 0; digit < 10; digit += 1) {
        // After the last place that counts only zeros change nothing.
        if (isLast) {
          if (digit === 0) row[1] = state;
        } else {
          const next = (remainder * 10 + digit) % this.#unit;
          row[digit + 1] = phases[phase === 0 ? 0 : phase + 1]![next]!;
        }
      }
    }
  }
}
