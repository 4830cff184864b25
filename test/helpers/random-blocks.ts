// Random blocks of GGUF: every byte as it comes but for the scales, which are such that numbers are not far from `size`.

import { unpackBlocks } from '../../src/ops/block-formats.ts';
import { BLOCKS, type BlockDType } from '../../src/ops/dtype.ts';
import { type LinearPart, plainPart } from '../../src/ops/weights.ts';
import { packF16 } from './pack-f16.ts';
import type { Random } from './random.ts';
import type { WeightFolder } from './weight-file.ts';

/** Where the f16 numbers of a block are, in bytes, and the largest multiple of each that a number can be. */
const SCALES: Readonly<Record<BlockDType, readonly (readonly [at: number, most: number])[]>> = {
  q4_0: [[0, 8]],
  q4_1: [
    [0, 15],
    [2, 1],
  ],
  q5_0: [[0, 16]],
  q5_1: [
    [0, 31],
    [2, 1],
  ],
  q8_0: [[0, 128]],
  q2_k: [
    [80, 45],
    [82, 15],
  ],
  q3_k: [[108, 128]],
  q4_k: [
    [0, 945],
    [2, 63],
  ],
  q5_k: [
    [0, 1953],
    [2, 63],
  ],
  q6_k: [[208, 4096]],
  iq4_nl: [[0, 127]],
  iq4_xs: [[0, 4064]],
  mxfp4: [],
  tq1_0: [[52, 1]],
  tq2_0: [[64, 2]],
};

export const BLOCK_DTYPES = Object.keys(BLOCKS) as BlockDType[];

/** @param next gives numbers in [0, 1). */
export function randomBlocks(dtype: BlockDType, numbers: number, next: () => number, size = 1): Uint8Array {
  const { numbers: perBlock, bytes } = BLOCKS[dtype];
  const blocks = Buffer.from(
    Array.from({ length: (numbers / perBlock) * bytes }, () => Math.floor(next() * 256)),
  );
  const half = new Uint16Array(1);
  for (let at = 0; at < blocks.length; at += bytes) {
    for (const [place, most] of SCALES[dtype]) {
      packF16(Float32Array.of(((next() * 2 - 1) * size) / most), half);
      blocks.writeUInt16LE(half[0]!, at + place);
    }
    if (dtype === 'mxfp4') blocks[at] = 127 + Math.floor(Math.log2(size)) - Math.floor(next() * 4) - 2;
  }
  return blocks;
}

/** A weight [n, k] of random blocks, and that of the numbers that they hold. */
export function blocksAndNumbers(
  folder: WeightFolder,
  random: Random,
  dtype: BlockDType,
  n: number,
  k: number,
): { blocks: LinearPart; numbers: LinearPart } {
  const bytes = randomBlocks(dtype, n * k, () => random.next());
  const values = new Float32Array(n * k);
  unpackBlocks(dtype, bytes, values);
  const tensor = folder.writeBytes([n, k], bytes, dtype);
  return {
    blocks: { weight: { kind: 'blocks', format: dtype, tensor }, bias: null },
    numbers: plainPart(folder.write([n, k], values)),
  };
}
