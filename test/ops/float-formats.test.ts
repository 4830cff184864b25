import { describe, expect, it } from 'vitest';
import {
  packBf16,
  packE4m3,
  roundToBf16,
  unpackBf16,
  unpackE4m3,
  unpackF16,
} from '../../src/ops/float-formats.ts';
import { packF16 } from '../helpers/pack-f16.ts';

const ALL_BITS = Uint16Array.from({ length: 65536 }, (_, bits) => bits);

function isNan16(bits: number, exponentMask: number): boolean {
  return (bits & exponentMask) === exponentMask && (bits & ~exponentMask & 0x7fff) !== 0;
}

function f16(value: number): number {
  const packed = new Uint16Array(1);
  packF16(Float32Array.of(value), packed);
  return packed[0]!;
}

function bf16(value: number): number {
  const packed = new Uint16Array(1);
  packBf16(Float32Array.of(value), packed);
  return packed[0]!;
}

describe('bf16', () => {
  it('widens and packs every bit pattern back to itself', () => {
    const wide = new Float32Array(65536);
    unpackBf16(ALL_BITS, wide);
    const packed = new Uint16Array(65536);
    packBf16(wide, packed);
    const wrong = ALL_BITS.filter((bits) => !isNan16(bits, 0x7f80) && packed[bits] !== bits);
    expect([...wrong]).toEqual([]);
    expect(ALL_BITS.filter((bits) => isNan16(bits, 0x7f80)).every((bits) => Number.isNaN(wide[bits]))).toBe(
      true,
    );
  });

  it.each([
    [1 + 2 ** -8, 0x3f80, 'a tie below an even neighbour goes down'],
    [1 + 3 * 2 ** -8, 0x3f82, 'a tie below an odd neighbour goes up'],
    [1 + 2 ** -8 + 2 ** -20, 0x3f81, 'more than half goes up'],
    [3.4e38, 0x7f80, 'what is nearest to infinity becomes it'],
    [Number.NaN, 0x7fc0, 'not a number stays one'],
    [-0, 0x8000, 'the sign of zero stays'],
  ])('packs %f as %i: %s', (value, bits) => {
    expect(bf16(value)).toBe(bits);
  });

  it('rounds in place to what it would pack', () => {
    const values = Float32Array.of(1.01, -2.3, 1e-40, 65537);
    const expected = new Float32Array(4);
    const packed = new Uint16Array(4);
    packBf16(values, packed);
    unpackBf16(packed, expected);
    roundToBf16(values);
    expect(values).toEqual(expected);
  });
});

describe('f16', () => {
  it('widens and packs every bit pattern back to itself', () => {
    const wide = new Float32Array(65536);
    unpackF16(ALL_BITS, wide);
    const packed = new Uint16Array(65536);
    packF16(wide, packed);
    const wrong = ALL_BITS.filter((bits) => !isNan16(bits, 0x7c00) && packed[bits] !== bits);
    expect([...wrong]).toEqual([]);
  });

  it.each([
    [1 + 2 ** -11, 0x3c00, 'a tie below an even neighbour goes down'],
    [1 + 3 * 2 ** -11, 0x3c02, 'a tie below an odd neighbour goes up'],
    [2 - 2 ** -12, 0x4000, 'a carry reaches the exponent'],
    [65504, 0x7bff, 'the largest number stays'],
    [65520, 0x7c00, 'what is nearest to infinity becomes it'],
    [2 ** -25, 0, 'half of the smallest number goes to zero'],
    [2 ** -25 + 2 ** -30, 1, 'more than half of the smallest number goes up'],
    [-(2 ** -14), 0x8400, 'the smallest normal number is exact'],
    [Number.NaN, 0x7e00, 'not a number stays one'],
  ])('packs %f as %i: %s', (value, bits) => {
    expect(f16(value)).toBe(bits);
  });
});

describe('e4m3', () => {
  const ALL_CODES = Uint8Array.from({ length: 256 }, (_, code) => code);
  const wide = new Float32Array(256);
  unpackE4m3(ALL_CODES, wide);

  it('widens and packs every code back to itself', () => {
    const packed = new Uint8Array(256);
    packE4m3(wide, packed);
    expect([...ALL_CODES.filter((code) => (code & 0x7f) !== 0x7f && packed[code] !== code)]).toEqual([]);
    expect([wide[0x7f], wide[0xff]]).toEqual([Number.NaN, Number.NaN]);
  });

  it.each([
    [1 + 2 ** -4, 0x38, 'a tie below an even neighbour goes down'],
    [1 + 3 * 2 ** -4, 0x3a, 'a tie below an odd neighbour goes up'],
    [2 - 2 ** -5, 0x40, 'a carry reaches the exponent'],
    [449, 0x7e, 'what is larger than 448 becomes it'],
    [-1e30, 0xfe, 'however much larger it is'],
    [2 ** -6 - 2 ** -12, 0x08, 'a carry reaches the normal numbers'],
    [2 ** -10, 0, 'half of the smallest number goes to zero'],
    [3 * 2 ** -10, 2, 'between two small numbers the even one is taken'],
    [Number.POSITIVE_INFINITY, 0x7f, 'infinity is not hidden'],
    [Number.NaN, 0x7f, 'nor is what is no number'],
  ])('packs %f as %i: %s', (value, code) => {
    const packed = new Uint8Array(1);
    packE4m3(Float32Array.of(value), packed);
    expect(packed[0]).toBe(code);
  });
});
