// What NVIDIA's Model Optimizer writes: 8-bit floats (e4m3) with a scale for the tensor, and NVFP4; a mixture says of neither which of them
// a weight is in, its tensors do. Inputs stay in bfloat16.
// Source: the releases of Nemotron in FP8 and NVFP4; github.com/NVIDIA/Model-Optimizer ("Unified HuggingFace Checkpoint").

import * as z from 'zod';
import { leaveCacheScalesUnread } from './cache-scales.ts';
import { float8Weight } from './float8-weight.ts';
import type { QuantizationMethod } from './method.ts';
import { nvfp4Weight } from './nvfp4.ts';

const schema = z.object({ quant_algo: z.enum(['FP8', 'NVFP4', 'MIXED_PRECISION']) });

export const modelopt: QuantizationMethod<z.output<typeof schema>> = {
  schema,
  served: 'quant_algo FP8, e4m3 with a scale for each tensor, NVFP4, and MIXED_PRECISION of the two',
  finder: () => (checkpoint, projection) => {
    const { name, n } = projection;
    leaveCacheScalesUnread(checkpoint, name);
    switch (checkpoint.dtypeOf(`${name}.weight`)) {
      case 'f8': {
        const tensor = checkpoint.findNumber(`${name}.weight_scale`);
        return float8Weight(checkpoint, projection, false, { tensor, isTransposed: false, outputs: n });
      }
      case 'u8': {
        const tensor = checkpoint.findNumber(`${name}.weight_scale_2`);
        return nvfp4Weight(checkpoint, projection, `${name}.weight`, { tensor, divides: false });
      }
      default:
        return null;
    }
  },
};
