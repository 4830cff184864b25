// Number formats: those that a checkpoint may hold and those that the arithmetic uses.

/** Formats of published weights; the whole numbers of `i8` and `i2_s`, and codes in the others, have scales beside them. */
export type StorageDType = NumberDType | 'i8' | 'u8' | 'i32' | 'f8' | 'i2_s';
/** Formats whose tensors are numbers without anything beside them. */
export type NumberDType = FloatDType | BlockDType;
export type FloatDType = 'f32' | 'f16' | 'bf16';
/** Quantised formats of GGUF: so many numbers of a row make a block, which holds their codes and scales. */
export type BlockDType = keyof typeof BLOCKS;

/**
 * Numbers of a block, the bytes that it takes in the file, and those that a backend keeps of it: codes and their scales, which are what the
 * file has of them, not changed to other numbers. Codes have as many bits as in the file (`packedBytes`), or 4 or 8 (`wideBytes`).
 */
export const BLOCKS = {
  q4_0: { numbers: 32, bytes: 18, packedBytes: 20, wideBytes: 20 },
  q4_1: { numbers: 32, bytes: 20, packedBytes: 24, wideBytes: 24 },
  q5_0: { numbers: 32, bytes: 22, packedBytes: 24, wideBytes: 36 },
  q5_1: { numbers: 32, bytes: 24, packedBytes: 28, wideBytes: 40 },
  q8_0: { numbers: 32, bytes: 34, packedBytes: 36, wideBytes: 36 },
  q2_k: { numbers: 256, bytes: 84, packedBytes: 104, wideBytes: 168 },
  q3_k: { numbers: 256, bytes: 110, packedBytes: 116, wideBytes: 148 },
  q4_k: { numbers: 256, bytes: 144, packedBytes: 152, wideBytes: 152 },
  q5_k: { numbers: 256, bytes: 176, packedBytes: 184, wideBytes: 280 },
  q6_k: { numbers: 256, bytes: 210, packedBytes: 212, wideBytes: 276 },
  iq4_nl: { numbers: 32, bytes: 18, packedBytes: 20, wideBytes: 20 },
  iq4_xs: { numbers: 256, bytes: 136, packedBytes: 140, wideBytes: 140 },
  mxfp4: { numbers: 32, bytes: 17, packedBytes: 20, wideBytes: 20 },
  tq1_0: { numbers: 256, bytes: 54, packedBytes: 72, wideBytes: 136 },
  tq2_0: { numbers: 256, bytes: 66, packedBytes: 72, wideBytes: 136 },
} as const;

/** Blocks of numbers from -1 to 1, times a scale that they may have. Those of `i2_s`, of bitnet.cpp, have none. */
export type TernaryDType = 'tq1_0' | 'tq2_0' | 'i2_s';

export function isTernaryDType(dtype: StorageDType): dtype is TernaryDType {
  return dtype === 'tq1_0' || dtype === 'tq2_0' || dtype === 'i2_s';
}

/** Numbers of 16 bits; each backend computes with those of one format (`Ops.half`). */
export type HalfDType = 'bf16' | 'f16';
/** Formats that a backend computes in: products of halves are accumulated in f32. */
export type ComputeDType = 'f32' | HalfDType;

export function isHalf(dtype: string): dtype is HalfDType {
  return dtype === 'bf16' || dtype === 'f16';
}

/** What a code means. Of 4 bits: `int4`, the code less 8; `fp4`, e2m1. Of 8 bits: `int8`, signed; `fp8`, e4m3. */
export type CodeKind = 'int4' | 'fp4' | 'int8' | 'fp8';

/**
 * Codes that encode halves, and are no format of their own to compute in: each number is
 * half((meaning of its code - zero) * scale), computed in f32, and a product is that of these halves. A backend may leave out
 * the rounding to a half of what codes encode.
 */
export interface CodeFormat {
  readonly kind: CodeKind;
  /** So many numbers along k have a scale, and a zero, in common: a multiple of 32, or 16 of `fp4`. Null is all of k. */
  readonly groupSize: number | null;
  /** Whether groups have zeros, in units of the codes' meanings. Only whole numbers may. */
  readonly hasZeros: boolean;
}

/**
 * How a backend keeps the numbers of a weight. `int8`: whole numbers from -127 to 127 times one scale for each column of
 * the output; a product then quantises each row of its input of halves likewise, so that its sums are exact. Blocks are codes like those of
 * CodeFormat: they encode the halves that are nearest to those of their definition (`block-formats.ts`).
 */
export type WeightFormat = ComputeDType | 'int8' | CodeFormat | BlockDType;

/**
 * How keys and values are kept. `fp8`: e4m3, no scales, larger numbers become 448. `int8`: whole numbers from -127 to 127
 * times one scale a token and head. Attention computes with both as halves.
 */
export type KvDType = ComputeDType | 'fp8' | 'int8';

/** The format that attention computes with, and of its output. */
export function attentionDTypeOf(dtype: KvDType, half: HalfDType): ComputeDType {
  return dtype === 'f32' ? 'f32' : half;
}

/** Bytes of the key, or the value, of one head of one token. */
export function kvHeadBytes(dtype: KvDType, headDim: number): number {
  switch (dtype) {
    case 'f32':
    case 'bf16':
    case 'f16':
      return headDim * BYTES_PER_ELEMENT[dtype];
    case 'fp8':
      return headDim;
    case 'int8':
      return headDim + Float32Array.BYTES_PER_ELEMENT;
  }
}

/** The format of the activations that a weight is multiplied with. */
export function inputDTypeOf(format: WeightFormat, half: HalfDType): ComputeDType {
  return format === 'f32' ? 'f32' : half;
}

/** One name for each format: `bf16`, `int8`, `int4-g128-zp`, `w8a16-g128`, `fp8`, `mxfp4`, `nvfp4`, `q4_k`. */
export function formatName(format: WeightFormat): string {
  if (typeof format === 'string') return format;
  const { kind, groupSize, hasZeros } = format;
  if (kind === 'fp4' && groupSize === 32) return 'mxfp4';
  if (kind === 'fp4' && groupSize === 16) return 'nvfp4';
  // `int8` is taken by the format whose products quantise their input.
  const name = kind === 'int8' ? 'w8a16' : kind;
  return `${name}${groupSize === null ? '' : `-g${groupSize}`}${hasZeros ? '-zp' : ''}`;
}

export function bitsOf(kind: CodeKind): 4 | 8 {
  return kind === 'int4' || kind === 'fp4' ? 4 : 8;
}

/** Groups of a weight's k. */
export function groupsOf({ groupSize }: CodeFormat, k: number): number {
  return groupSize === null ? 1 : Math.ceil(k / groupSize);
}

const I2_S = { numbers: 128, bytes: 32 } as const;

export const BYTES_PER_ELEMENT: Readonly<Record<Exclude<StorageDType, BlockDType | 'i2_s'>, number>> = {
  f32: 4,
  f16: 2,
  bf16: 2,
  i8: 1,
  u8: 1,
  i32: 4,
  f8: 1,
};

export function isBlockDType(dtype: string): dtype is BlockDType {
  return Object.hasOwn(BLOCKS, dtype);
}

/** Numbers that are stored together; parts of a row begin and end with them. */
export function numbersOfBlock(dtype: StorageDType): number {
  if (dtype === 'i2_s') return I2_S.numbers;
  return isBlockDType(dtype) ? BLOCKS[dtype].numbers : 1;
}

/** Bytes of `count` numbers, whole blocks of them. */
export function storedBytes(dtype: StorageDType, count: number): number {
  if (dtype === 'i2_s') return (count / I2_S.numbers) * I2_S.bytes;
  if (!isBlockDType(dtype)) return count * BYTES_PER_ELEMENT[dtype];
  return (count / BLOCKS[dtype].numbers) * BLOCKS[dtype].bytes;
}
