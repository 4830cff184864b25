// Weights of codes for tests of products.

import { decodeCodes } from '../../src/ops/decode-codes.ts';
import type { CodeFormat, HalfDType } from '../../src/ops/dtype.ts';
import { roundTo, roundToBf16 } from '../../src/ops/float-formats.ts';
import { type CodesWeightSource, type LinearPart, plainPart } from '../../src/ops/weights.ts';
import type { WeightFolder } from '../helpers/weight-file.ts';
import type { Random } from './native-backends.ts';

export const CODE_FORMATS: readonly CodeFormat[] = [
  ...[32, 64, 128, null].map((groupSize) => ({ kind: 'int4', groupSize, hasZeros: false }) as const),
  { kind: 'int4', groupSize: 32, hasZeros: true },
  { kind: 'int4', groupSize: 128, hasZeros: true },
  { kind: 'int8', groupSize: null, hasZeros: false },
  { kind: 'int8', groupSize: 64, hasZeros: true },
  { kind: 'fp4', groupSize: 32, hasZeros: false },
  { kind: 'fp4', groupSize: 16, hasZeros: false },
  { kind: 'fp8', groupSize: null, hasZeros: false },
  { kind: 'fp8', groupSize: 128, hasZeros: false },
  { kind: 'fp8', groupSize: 64, hasZeros: false },
];

/** Codes of every value, in rows of bytes; those of 4 bits are in words. */
export function randomCodes(
  folder: WeightFolder,
  random: Random,
  format: CodeFormat,
  n: number,
  k: number,
): CodesWeightSource {
  const { kind, groupSize, hasZeros } = format;
  const isOf4Bits = kind === 'int4' || kind === 'fp4';
  const [dtype, rowBytes] = isOf4Bits
    ? (['i32', Math.ceil(k / 8) * 4] as const)
    : ([kind === 'fp8' ? 'f8' : 'i8', k] as const);
  const bytes = Uint8Array.from({ length: n * rowBytes }, () => random.integer(0, 255));
  // Two codes of e4m3 are no numbers.
  if (kind === 'fp8') for (const [i, byte] of bytes.entries()) bytes[i] = byte % 128 === 127 ? 0 : byte;
  const groups = groupSize === null ? 1 : Math.ceil(k / groupSize);
  const scales = random.floats(n * groups).map((value) => Math.abs(value) + 0.01);
  // Multiples of a number of bf16 are often halfway between two others.
  roundToBf16(scales.subarray(scales.length / 2));
  const zeros = Uint8Array.from({ length: n * groups }, () =>
    random.integer(isOf4Bits ? -8 : -128, isOf4Bits ? 7 : 127),
  );
  return {
    kind: 'codes',
    format,
    shape: [n, k],
    tensor: folder.writeBytes([n, isOf4Bits ? rowBytes / 4 : k], bytes, dtype),
    order: 'rows',
    scales: { tensor: folder.write([n, groups], scales), isTransposed: false, outputs: 1 },
    zeros: hasZeros ? { order: 'plain', tensor: folder.writeBytes([n, groups], zeros, 'i8'), less: 0 } : null,
    inputGroups: null,
  };
}

/** The numbers [n, k] that the codes encode, before they are rounded. */
export function encoded(source: CodesWeightSource): Float32Array {
  return decodeCodes(source);
}

/** The weight of those numbers, rounded to halves. */
export function decoded(
  folder: WeightFolder,
  source: CodesWeightSource,
  half: HalfDType = 'bf16',
): LinearPart {
  const numbers = encoded(source);
  roundTo(half, numbers);
  return plainPart(folder.write(source.shape, numbers));
}
