// The quantised formats of GGUF tensors, as the reference conversions of ggml (ggml-quants.c) define them: blocks of 32 numbers, each
// a whole number times the scale of its block, which is an f16 in front of them.

import { GGML_TYPES } from '../../test/fixtures/gguf-writer.ts';
import { packF16 } from '../../test/helpers/pack-f16.ts';

const BLOCK = 32;
const SCALE_BYTES = 2;

/** Q8_0: whole numbers from -127 to 127, a byte each; the scale is the largest size divided by 127. */
export function packQ8(values: Float32Array): Uint8Array {
  const { bytes: blockBytes } = GGML_TYPES.Q8_0;
  const { bytes, scales } = startBlocks(values, blockBytes, (extreme) => Math.abs(extreme) / 127);
  for (let block = 0; block < scales.length; block++) {
    const inverse = inverseOf(scales[block]!);
    const at = block * blockBytes + SCALE_BYTES;
    for (let i = 0; i < BLOCK; i++) bytes[at + i] = halfAway(values[block * BLOCK + i]! * inverse);
  }
  return bytes;
}

/**
 * Q4_0: whole numbers from -8 to 7, stored plus 8, half a byte each: byte j has number j below and number j + 16 above. The number of
 * the largest size is -8 times the scale.
 */
export function packQ4(values: Float32Array): Uint8Array {
  const { bytes: blockBytes } = GGML_TYPES.Q4_0;
  const { bytes, scales } = startBlocks(values, blockBytes, (extreme) => extreme / -8);
  for (let block = 0; block < scales.length; block++) {
    const inverse = inverseOf(scales[block]!);
    const at = block * blockBytes + SCALE_BYTES;
    for (let j = 0; j < BLOCK / 2; j++) {
      const i = block * BLOCK + j;
      bytes[at + j] = halfByte(values[i]! * inverse) | (halfByte(values[i + BLOCK / 2]! * inverse) << 4);
    }
  }
  return bytes;
}

/** Rounds; of a half, away from zero. */
function halfAway(value: number): number {
  return Math.trunc(value < 0 ? value - 0.5 : value + 0.5);
}

function halfByte(value: number): number {
  return Math.min(15, Math.floor(value + 8.5));
}

function inverseOf(scale: number): number {
  return scale === 0 ? 0 : 1 / scale;
}

/**
 * Blocks of which only the scales are written, and the scales before they were rounded to f16.
 * @param scaleOf gets the number of the largest size in a block.
 */
function startBlocks(
  values: Float32Array,
  blockBytes: number,
  scaleOf: (extreme: number) => number,
): { bytes: Uint8Array; scales: Float32Array } {
  const scales = new Float32Array(values.length / BLOCK);
  for (let block = 0; block < scales.length; block++) {
    let extreme = 0;
    for (let i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
      if (Math.abs(values[i]!) > Math.abs(extreme)) extreme = values[i]!;
    }
    scales[block] = scaleOf(extreme);
  }
  const halves = new Uint16Array(scales.length);
  packF16(scales, halves);
  const bytes = Buffer.alloc(scales.length * blockBytes);
  for (let block = 0; block < scales.length; block++) bytes.writeUInt16LE(halves[block]!, block * blockBytes);
  return { bytes, scales };
}
