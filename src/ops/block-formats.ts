// What the blocks of GGUF mean: the definition of each quantised format, in f32 as ggml computes it (ggml-org/ggml, ggml-common.h for
// the layouts, ggml-quants.c for the numbers). Names of fields are those of the layouts.

import { BLOCKS, type BlockDType } from './dtype.ts';
import { f16ToNumber } from './float-formats.ts';
import { scaleOfTernary, ternaryCode } from './ternary-blocks.ts';

const inF32 = Math.fround;

/** Writes the numbers of whole blocks to `into`. */
export function unpackBlocks(dtype: BlockDType, bytes: Uint8Array, into: Float32Array): void {
  const { numbers, bytes: size } = BLOCKS[dtype];
  const unpack = UNPACK[dtype];
  for (let block = 0; block * size < bytes.length; block += 1) {
    unpack(
      bytes.subarray(block * size, (block + 1) * size),
      into.subarray(block * numbers, (block + 1) * numbers),
    );
  }
}

type Unpack = (block: Uint8Array, into: Float32Array) => void;

const UNPACK: Readonly<Record<BlockDType, Unpack>> = {
  q4_0: (block, into) => scaled(into, f16(block, 0), (i) => nibble(block, 2, i) - 8),
  q4_1: (block, into) => shifted(into, f16(block, 0), f16(block, 2), (i) => nibble(block, 4, i)),
  q5_0: (block, into) => scaled(into, f16(block, 0), (i) => fiveBits(block, 2, i) - 16),
  q5_1: (block, into) => shifted(into, f16(block, 0), f16(block, 2), (i) => fiveBits(block, 4, i)),
  q8_0: (block, into) => scaled(into, f16(block, 0), (i) => signed(block[2 + i]!)),
  iq4_nl: (block, into) => scaled(into, f16(block, 0), (i) => NONLINEAR[nibble(block, 2, i)]!),
  mxfp4: (block, into) => scaled(into, 2 ** (block[0]! - 128), (i) => TWICE_E2M1[nibble(block, 1, i)]!),
  q2_k: unpackQ2K,
  q3_k: unpackQ3K,
  q4_k: (block, into) => unpackWithMins(block, into, (i) => nibbleOf64(block, 16, i)),
  q5_k: (block, into) =>
    unpackWithMins(block, into, (i) => nibbleOf64(block, 48, i) + 16 * bit(block[16 + (i % 32)]!, i >> 5)),
  q6_k: unpackQ6K,
  iq4_xs: unpackIq4Xs,
  tq1_0: (block, into) =>
    scaled(into, scaleOfTernary('tq1_0', block), (i) => ternaryCode('tq1_0', block, i) - 1),
  tq2_0: (block, into) =>
    scaled(into, scaleOfTernary('tq2_0', block), (i) => ternaryCode('tq2_0', block, i) - 1),
};

/** The values of IQ4. */
const NONLINEAR = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const;
const TWICE_E2M1 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] as const;

function scaled(into: Float32Array, scale: number, codeAt: (i: number) => number): void {
  for (let i = 0; i < into.length; i += 1) into[i] = scale * codeAt(i);
}

function shifted(into: Float32Array, scale: number, min: number, codeAt: (i: number) => number): void {
  for (let i = 0; i < into.length; i += 1) into[i] = inF32(scale * codeAt(i)) + min;
}

/** scales [16] (4 bits scale, 4 bits min), qs [64], d, dmin; groups of 16 numbers. */
function unpackQ2K(block: Uint8Array, into: Float32Array): void {
  const [d, dmin] = [f16(block, 80), f16(block, 82)];
  for (let i = 0; i < 256; i += 1) {
    const scales = block[i >> 4]!;
    const code = twoBits(block, 16, i);
    into[i] = inF32(inF32(d * (scales & 15)) * code) - inF32(dmin * (scales >> 4));
  }
}

/** hmask [32], qs [64], scales [12], d; groups of 16 numbers. */
function unpackQ3K(block: Uint8Array, into: Float32Array): void {
  const d = f16(block, 108);
  for (let i = 0; i < 256; i += 1) {
    const group = i >> 4;
    const low = (block[96 + (group % 8)]! >> (group < 8 ? 0 : 4)) & 15;
    const high = (block[104 + (group % 4)]! >> (2 * (group >> 2))) & 3;
    const isAbove = bit(block[i % 32]!, i >> 5) === 1;
    const code = twoBits(block, 32, i) - (isAbove ? 0 : 4);
    into[i] = inF32(d * (low + 16 * high - 32)) * code;
  }
}

/** d, dmin, scales [12]; groups of 32 numbers. */
function unpackWithMins(block: Uint8Array, into: Float32Array, codeAt: (i: number) => number): void {
  const [d, dmin] = [f16(block, 0), f16(block, 2)];
  for (let group = 0; group < 8; group += 1) {
    const { scale, min } = sixBits(block, group);
    const [groupScale, groupMin] = [inF32(d * scale), inF32(dmin * min)];
    for (let i = 32 * group; i < 32 * (group + 1); i += 1) {
      into[i] = inF32(groupScale * codeAt(i)) - groupMin;
    }
  }
}

/** Scale and min of a group, of 6 bits each: in the twelve bytes from 4 on. Those of the last four groups are in two pieces. */
function sixBits(block: Uint8Array, group: number): { scale: number; min: number } {
  const at = (byte: number): number => block[4 + byte]!;
  if (group < 4) return { scale: at(group) & 63, min: at(group + 4) & 63 };
  return {
    scale: (at(group + 4) & 15) | ((at(group - 4) >> 6) << 4),
    min: (at(group + 4) >> 4) | ((at(group) >> 6) << 4),
  };
}

/** ql [128], qh [64], scales [16], d; groups of 16 numbers. */
function unpackQ6K(block: Uint8Array, into: Float32Array): void {
  const d = f16(block, 208);
  for (let i = 0; i < 256; i += 1) {
    const [half, inHalf] = [i >> 7, i % 128];
    const low = (block[64 * half + (inHalf % 64)]! >> (inHalf < 64 ? 0 : 4)) & 15;
    const high = (block[128 + 32 * half + (inHalf % 32)]! >> (2 * (inHalf >> 5))) & 3;
    into[i] = inF32(d * signed(block[192 + (i >> 4)]!)) * (low + 16 * high - 32);
  }
}

/** d, scales_h (2 bits a group), scales_l [4] (4 bits a group), qs [128]; groups of 32 numbers. */
function unpackIq4Xs(block: Uint8Array, into: Float32Array): void {
  const d = f16(block, 0);
  const highs = block[2]! | (block[3]! << 8);
  for (let i = 0; i < 256; i += 1) {
    const group = i >> 5;
    const low = (block[4 + (group >> 1)]! >> (4 * (group % 2))) & 15;
    const scale = low + 16 * ((highs >> (2 * group)) & 3) - 32;
    into[i] = inF32(d * scale) * NONLINEAR[nibble(block, 8 + 16 * group, i % 32)]!;
  }
}

function f16(block: Uint8Array, at: number): number {
  return f16ToNumber(block[at]! | (block[at + 1]! << 8));
}

/** Of 32 numbers the first 16 are in the lower halves of 16 bytes. */
function nibble(block: Uint8Array, at: number, i: number): number {
  return (block[at + (i % 16)]! >> (i < 16 ? 0 : 4)) & 15;
}

/** Of 64 numbers the first 32 are in the lower halves of 32 bytes. */
function nibbleOf64(block: Uint8Array, at: number, i: number): number {
  return (block[at + 32 * (i >> 6) + (i % 32)]! >> (i % 64 < 32 ? 0 : 4)) & 15;
}

/** qh [4], a bit a number, then qs [16]. */
function fiveBits(block: Uint8Array, at: number, i: number): number {
  return nibble(block, at + 4, i) + 16 * bit(block[at + (i >> 3)]!, i % 8);
}

/** Of 128 numbers each 32 have two bits of 32 bytes. */
function twoBits(block: Uint8Array, at: number, i: number): number {
  return (block[at + 32 * (i >> 7) + (i % 32)]! >> (2 * ((i >> 5) % 4))) & 3;
}

function bit(byte: number, place: number): number {
  return (byte >> place) & 1;
}

function signed(byte: number): number {
  return byte < 128 ? byte : byte - 256;
}
