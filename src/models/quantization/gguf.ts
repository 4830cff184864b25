// The blocks of GGUF: each tensor says for itself what its numbers are, as floats do. Where blocks are of -1, 0 and 1 and have one scale in
// all the tensor, as those of BitNet do, they are its numbers in 2 bits; others are codes, as all blocks are.

import * as z from 'zod';
import { readBytes } from '../../ops/read-tensor.ts';
import { commonScale } from '../../ops/ternary-blocks.ts';
import type { TensorSource } from '../../ops/weights.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { QuantizationMethod } from './method.ts';
import { publishedScale, scaleOfRows } from './scale-of-rows.ts';

const TERNARY = ['tq1_0', 'tq2_0', 'i2_s'] as const;

export const gguf: QuantizationMethod = {
  schema: z.object({}),
  served: 'blocks',
  finder:
    () =>
    (checkpoint, { name, n, k }) => {
      const dtype = checkpoint.dtypeOf(`${name}.weight`);
      if (!TERNARY.some((one) => one === dtype)) return null;
      const tensor = checkpoint.findAs(`${name}.weight`, [n, k], TERNARY);
      const scale = scaleOf(checkpoint, name, tensor);
      return scale === null ? null : { kind: 'int8', tensor, scales: scaleOfRows(tensor, scale, n) };
    },
};

/** Null where blocks have several. */
function scaleOf(
  checkpoint: Checkpoint,
  name: string,
  tensor: TensorSource & { readonly dtype: (typeof TERNARY)[number] },
): number | null {
  const { dtype } = tensor;
  return dtype === 'i2_s' ? publishedScale(checkpoint, name).scale : commonScale(dtype, readBytes(tensor));
}
