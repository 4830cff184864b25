// Weights of -1, 0 and 1, and one scale for the matrix; products quantise each row of their input to whole numbers of 8 bits, as they do
// with int8. Releases that quantise floats while they are trained (quantization_mode online) have no codes.
// Source: Ma et al., "The Era of 1-bit LLMs", 2024, and "BitNet b1.58 2B4T", 2025; the releases of Falcon 3 in 1.58 bits.

import * as z from 'zod';
import { type TensorSource, wholeTensor } from '../../ops/weights.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { QuantizationMethod, QuantizedProjection } from './method.ts';
import { publishedScale, scaleOfRows } from './scale-of-rows.ts';

const NUMBERS_OF_BYTE = 4;

const schema = z.object({
  linear_class: z.enum(['bitlinear', 'autobitlinear']).nullish(),
  quantization_mode: z.literal('offline').nullish(),
  /** A norm before each product, of which no release has weights. */
  use_rms_norm: z.literal(false).nullish(),
});

export const bitnet: QuantizationMethod<z.output<typeof schema>> = {
  schema,
  served: 'numbers of 2 bits with a scale for each tensor (quantization_mode offline, use_rms_norm false)',
  finder: ({ linear_class }) => {
    const divides = linear_class !== 'autobitlinear';
    return (checkpoint, projection) =>
      checkpoint.dtypeOf(`${projection.name}.weight`) === 'u8'
        ? {
            kind: 'int8',
            tensor: ternaryTensor(checkpoint, projection),
            scales: scalesOf(checkpoint, projection, divides),
          }
        : null;
  },
};

/** Bytes [n / 4, k], each with numbers of four rows. */
function ternaryTensor(checkpoint: Checkpoint, { name, n, k }: QuantizedProjection): TensorSource {
  const planeRows = Math.ceil(n / NUMBERS_OF_BYTE);
  const bytes = checkpoint.findAs(`${name}.weight`, [planeRows, k], ['u8']);
  const all = wholeTensor({ ...bytes, dtype: 'i8', shape: [NUMBERS_OF_BYTE * planeRows, k], planeRows });
  return { ...all, shape: [n, k] };
}

/** The one scale of the tensor, which products are multiplied by or divided. */
function scalesOf(checkpoint: Checkpoint, { name, n }: QuantizedProjection, divides: boolean): TensorSource {
  const { source, scale } = publishedScale(checkpoint, name);
  return scaleOfRows(source, divides ? 1 / scale : scale, n);
}
