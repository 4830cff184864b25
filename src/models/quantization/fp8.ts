// Weights of 8-bit floats (e4m3) with a scale for each block of 128 x 128, or for the tensor. Inputs stay in bfloat16, however
// the release would quantise them: that is nearer to the model before.
// Source: the releases of DeepSeek-V3 and Qwen3 in FP8; Micikevicius et al., "FP8 Formats for Deep Learning", 2022.

import { z } from 'zod';
import type { QuantizationMethod } from './method.ts';

const BLOCK = 128;

const schema = z.object({
  weight_block_size: z.tuple([z.literal(BLOCK), z.literal(BLOCK)]).nullish(),
  fmt: z.literal('e4m3').nullish(),
  kv_cache_scheme: z.null().optional(),
});
type Config = z.output<typeof schema>;

export const fp8: QuantizationMethod<Config> = {
  schema,
  served: 'e4m3 with a scale for each block of 128 x 128 or each tensor',
  finder:
    ({ weight_block_size }) =>
    (checkpoint, { name, n, k }) => {
      if (checkpoint.dtypeOf(`${name}.weight`) !== 'f8') return null;
      const isBlock = weight_block_size !== null && weight_block_size !== undefined;
      const blocks = [n, k].map((size) => Math.ceil(size / BLOCK));
      checkpoint.skip(`${name}.input_scale`);
      return {
        kind: 'codes',
        format: { kind: 'fp8', groupSize: isBlock ? BLOCK : null, hasZeros: false },
        shape: [n, k],
        tensor: checkpoint.findAs(`${name}.weight`, [n, k], ['f8']),
        order: 'rows',
        scales: isBlock
          ? {
              tensor: checkpoint.find(`${name}.weight_scale_inv`, blocks),
              isTransposed: false,
              outputs: BLOCK,
            }
          : { tensor: checkpoint.findNumber(`${name}.weight_scale`), isTransposed: false, outputs: n },
        zeros: null,
        inputGroups: null,
      };
    },
};
