// Weights of 8-bit floats (e4m3) with a scale for each block of 128 x 128, or for the tensor. Inputs stay in bfloat16, however
// the release would quantise them: that is nearer to the model before.
// Source: the releases of DeepSeek-V3 and Qwen3 in FP8; Micikevicius et al., "FP8 Formats for Deep Learning", 2022.

import * as z from 'zod';
import { leaveCacheScalesUnread } from './cache-scales.ts';
import { blockScales, FLOAT8_BLOCK, float8Weight } from './float8-weight.ts';
import type { QuantizationMethod } from './method.ts';

const schema = z.object({
  weight_block_size: z.tuple([z.literal(FLOAT8_BLOCK), z.literal(FLOAT8_BLOCK)]).nullish(),
  fmt: z.literal('e4m3').nullish(),
});
type Config = z.output<typeof schema>;

export const fp8: QuantizationMethod<Config> = {
  schema,
  served: 'e4m3 with a scale for each block of 128 x 128 or each tensor',
  finder:
    ({ weight_block_size }) =>
    (checkpoint, projection) => {
      const { name, n } = projection;
      leaveCacheScalesUnread(checkpoint, name);
      if (checkpoint.dtypeOf(`${name}.weight`) !== 'f8') return null;
      // What weights are multiplied by, in spite of its name.
      const inverse = `${name}.weight_scale_inv`;
      const isBlock = weight_block_size !== null && weight_block_size !== undefined;
      const scales = isBlock
        ? blockScales(checkpoint, inverse, projection)
        : {
            tensor: checkpoint.findNumber(checkpoint.has(inverse) ? inverse : `${name}.weight_scale`),
            isTransposed: false,
            outputs: n,
          };
      return float8Weight(checkpoint, projection, isBlock, scales);
    },
};
