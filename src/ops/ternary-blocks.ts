// Blocks of numbers from -1 to 1: where the code of each is, which is the number plus 1, and the scale of a block. The layouts of tq1_0 and
// tq2_0 are ggml's (ggml-org/ggml, ggml-common.h, ggml-quants.c), that of i2_s is of bitnet.cpp (microsoft/BitNet).

import { numbersOfBlock, storedBytes, type TernaryDType } from './dtype.ts';
import { f16ToNumber } from './float-formats.ts';

/** From 0 to 2; damaged blocks may have a 3. */
export function ternaryCode(dtype: TernaryDType, block: Uint8Array, i: number): number {
  if (dtype === 'i2_s') return (block[i % 32]! >> (6 - 2 * (i >> 5))) & 3;
  if (dtype === 'tq2_0') return (block[32 * (i >> 7) + (i % 32)]! >> (2 * ((i >> 5) % 4))) & 3;
  // 32 bytes of five numbers, 16 of five, four of four; numbers of neighbouring bytes are neighbours.
  if (i < 160) return digit(block[i % 32]!, i >> 5);
  if (i < 240) return digit(block[32 + ((i - 160) % 16)]!, (i - 160) >> 4);
  return digit(block[48 + ((i - 240) % 4)]!, (i - 240) >> 2);
}

/** A byte is a fraction of 256, in digits to the base of 3. */
function digit(byte: number, place: number): number {
  return (((byte * 3 ** place) % 256) * 3) >> 8;
}

/** Where the f16 of a block is. */
const SCALE_AT = { tq1_0: 52, tq2_0: 64 } as const;
type ScaledDType = keyof typeof SCALE_AT;

export function scaleOfTernary(dtype: ScaledDType, block: Uint8Array): number {
  return f16ToNumber(bitsOfScale(block, SCALE_AT[dtype]));
}

function bitsOfScale(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8);
}

/** The numbers of whole blocks, without their scales. @returns whether all codes stand for one. */
export function unpackTernary(dtype: TernaryDType, bytes: Uint8Array, into: Float32Array): boolean {
  const { count, size } = blockOf(dtype);
  let areNumbers = true;
  for (let start = 0, first = 0; start < bytes.length; start += size, first += count) {
    const block = bytes.subarray(start, start + size);
    for (let i = 0; i < count; i++) {
      const code = ternaryCode(dtype, block, i);
      areNumbers &&= code < 3;
      into[first + i] = code - 1;
    }
  }
  return areNumbers;
}

/** The scale of all blocks, above 0; those of zeros may have 0 in its place. Null where there is no such scale. */
export function commonScale(dtype: ScaledDType, bytes: Uint8Array): number | null {
  const { count, size } = blockOf(dtype);
  let common: number | null = null;
  for (let start = 0; start < bytes.length; start += size) {
    const bits = bitsOfScale(bytes, start + SCALE_AT[dtype]);
    if (bits === common) continue;
    if (bits === 0 && isZero(dtype, bytes.subarray(start, start + size), count)) continue;
    if (common !== null) return null;
    common = bits;
  }
  const scale = common === null ? 0 : f16ToNumber(common);
  return scale > 0 && Number.isFinite(scale) ? scale : null;
}

function isZero(dtype: TernaryDType, block: Uint8Array, count: number): boolean {
  for (let i = 0; i < count; i++) if (ternaryCode(dtype, block, i) !== 1) return false;
  return true;
}

function blockOf(dtype: TernaryDType): { readonly count: number; readonly size: number } {
  const count = numbersOfBlock(dtype);
  return { count, size: storedBytes(dtype, count) };
}
