// Number formats: those that a checkpoint may hold and those that the arithmetic uses.

/** Formats of published weights; the whole numbers of `i8` have scales beside them. */
export type StorageDType = FloatDType | 'i8';
export type FloatDType = 'f32' | 'f16' | 'bf16';

/** Formats that a backend computes in: `bf16` products are accumulated in f32. */
export type ComputeDType = 'f32' | 'bf16';

/**
 * How a backend keeps the numbers of a weight. `int8`: whole numbers from -127 to 127 times one scale for each column of
 * the output; a product then quantises each row of its bf16 input likewise, so that its sums are exact.
 */
export type WeightFormat = ComputeDType | 'int8';

/**
 * How keys and values are kept. `fp8`: e4m3, no scales, larger numbers become 448. `int8`: whole numbers from -127 to 127
 * times one scale a token and head. Attention computes with both as bf16.
 */
export type KvDType = ComputeDType | 'fp8' | 'int8';

/** The format that attention computes with, and of its output. */
export function attentionDTypeOf(dtype: KvDType): ComputeDType {
  return dtype === 'f32' ? 'f32' : 'bf16';
}

/** Bytes of the key, or the value, of one head of one token. */
export function kvHeadBytes(dtype: KvDType, headDim: number): number {
  switch (dtype) {
    case 'f32':
    case 'bf16':
      return headDim * BYTES_PER_ELEMENT[dtype];
    case 'fp8':
      return headDim;
    case 'int8':
      return headDim + Float32Array.BYTES_PER_ELEMENT;
  }
}

/** The format of the activations that a weight is multiplied with. */
export function inputDTypeOf(format: WeightFormat): ComputeDType {
  return format === 'f32' ? 'f32' : 'bf16';
}

export const BYTES_PER_ELEMENT: Readonly<Record<StorageDType, number>> = { f32: 4, f16: 2, bf16: 2, i8: 1 };
