// Neighbours and digits of numbers as JSON readers hold them: IEEE 754 doubles.

const view = new DataView(new ArrayBuffer(8));

/** The next larger double. */
export function nextUp(value: number): number {
  if (value === Number.POSITIVE_INFINITY) return value;
  if (value === 0) return Number.MIN_VALUE;
  view.setFloat64(0, value);
  view.setBigInt64(0, view.getBigInt64(0) + (value > 0 ? 1n : -1n));
  return view.getFloat64(0);
}

export function nextDown(value: number): number {
  return -nextUp(-value);
}

/** A number without sign: value = 0.d1d2d3… times ten to the power of `point`, without zeros at either end of the digits. */
export interface Decimal {
  readonly digits: string;
  readonly point: number;
}

/** The shortest digits that are read back as this number. */
export function toDecimal(value: number): Decimal {
  const [mantissa = '', exponent = '0'] = Math.abs(value).toExponential().split('e');
  const digits = mantissa.replace('.', '').replace(/0+$/, '');
  return digits === '' ? { digits: '', point: 0 } : { digits, point: Number(exponent) + 1 };
}

/** Digits before and after the point, as the number is written without an exponent. */
export function plainDigits({ digits, point }: Decimal): { whole: string; fraction: string } {
  if (point <= 0) return { whole: '', fraction: digits === '' ? '' : '0'.repeat(-point) + digits };
  return { whole: digits.slice(0, point).padEnd(point, '0'), fraction: digits.slice(point) };
}
