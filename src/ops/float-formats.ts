// Conversions between f32 and the 16-bit formats of checkpoints, for what is read in TypeScript; native kernels have their own.

function bitsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}

/** Upper 16 bits of the f32 nearest to `bits`, ties to even; not-a-number stays one. */
function nearestBf16(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Rounds in place to what `dtype` can hold. */
export function roundTo(dtype: 'f32' | 'bf16' | 'f16', values: Float32Array): void {
  if (dtype === 'bf16') roundToBf16(values);
  else if (dtype === 'f16') roundToF16(values);
}

/** Rounds in place to what bf16 can hold. */
export function roundToBf16(values: Float32Array): void {
  const bits = bitsOf(values);
  for (let i = 0; i < bits.length; i++) bits[i] = nearestBf16(bits[i]!) << 16;
}

/** Writes the bf16 form of `values` to `into`. */
export function packBf16(values: Float32Array, into: Uint16Array): void {
  const bits = bitsOf(values);
  for (let i = 0; i < bits.length; i++) into[i] = nearestBf16(bits[i]!);
}

/** Writes the f32 form of `packed` to `into`: exact. */
export function unpackBf16(packed: Uint16Array, into: Float32Array): void {
  const bits = bitsOf(into);
  for (let i = 0; i < packed.length; i++) bits[i] = packed[i]! << 16;
}

/** The largest number of e4m3, and the code of its NaN. */
const MOST_E4M3 = 448;
const NAN_E4M3 = 0x7f;

/** Writes the e4m3 form of `values` to `into`: to the nearest, ties to even; 448 for what is larger, NaN for what is not finite. */
export function packE4m3(values: Float32Array, into: Uint8Array): void {
  const bits = bitsOf(values);
  for (const [i, value] of values.entries())
    into[i] = ((bits[i]! >>> 24) & 0x80) | nearestE4m3(Math.abs(value));
}

/** Writes the f32 form of `packed` to `into`: exact. */
export function unpackE4m3(packed: Uint8Array, into: Float32Array): void {
  for (const [i, code] of packed.entries()) {
    const [sign, exponent, mantissa] = [code & 0x80 ? -1 : 1, (code >>> 3) & 15, code & 7];
    const size = exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10);
    into[i] = (code & 0x7f) === NAN_E4M3 ? Number.NaN : sign * size;
  }
}

/** |value| is far below 2^52: adding that much leaves no bits for a fraction. */
export function roundHalfToEven(value: number): number {
  const shift = 2 ** 52 + 2 ** 51;
  return value + shift - shift;
}

/** Codes count the numbers upwards, eight to a power of two from 2^-6 on. */
function nearestE4m3(size: number): number {
  if (!Number.isFinite(size)) return NAN_E4M3;
  if (size >= MOST_E4M3) return 0x7e;
  const exponent = Math.max(-6, Math.floor(Math.log2(size)));
  return (exponent + 6) * 8 + roundHalfToEven(size * 2 ** (3 - exponent));
}

/** Bits of the f16 nearest to `value`, whose bits as f32 they are, ties to even; infinite where it is too large, not-a-number stays one. */
function nearestF16(value: number, bits: number): number {
  const [sign, size] = [(bits >>> 16) & 0x8000, bits & 0x7fffffff];
  if (size > 0x7f800000) return sign | 0x7e00;
  // Below 2^-14 multiples of 2^-24, above 10 bits of the fraction, whose carry goes to the exponent.
  if (size < 0x38800000) return sign | roundHalfToEven(Math.abs(value) * 2 ** 24);
  return sign | Math.min(0x7c00, ((size + 0xfff + ((size >>> 13) & 1)) >>> 13) - (112 << 10));
}

/** Rounds in place to what f16 can hold. */
export function roundToF16(values: Float32Array): void {
  const bits = bitsOf(values);
  for (let i = 0; i < bits.length; i++) values[i] = f16ToNumber(nearestF16(values[i]!, bits[i]!));
}

/** Writes the f32 form of `packed` to `into`: exact. */
export function unpackF16(packed: Uint16Array, into: Float32Array): void {
  for (let i = 0; i < packed.length; i++) into[i] = f16ToNumber(packed[i]!);
}

export function f16ToNumber(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >>> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (mantissa + 1024) * 2 ** (exponent - 25);
}
