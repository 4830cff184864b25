// Weights of 8-bit floats (e4m3) with a scale for the tensor, as NVIDIA's Model Optimizer writes them. Inputs stay in bfloat16, and so do
// keys and values, whose scales are left unread.
// Source: the releases of Nemotron in FP8; github.com/NVIDIA/Model-Optimizer ("Unified HuggingFace Checkpoint").

import * as z from 'zod';
import { float8Weight } from './float8-weight.ts';
import type { QuantizationMethod } from './method.ts';

const schema = z.object({ quant_algo: z.literal('FP8') });

export const modelopt: QuantizationMethod<z.output<typeof schema>> = {
  schema,
  served: 'quant_algo FP8, e4m3 with a scale for each tensor',
  finder: () => (checkpoint, projection) => {
    const { name, n } = projection;
    for (const scale of ['k_scale', 'v_scale']) checkpoint.leaveUnread(`${name}.${scale}`);
    if (checkpoint.dtypeOf(`${name}.weight`) !== 'f8') return null;
    const tensor = checkpoint.findNumber(`${name}.weight_scale`);
    return float8Weight(checkpoint, projection, false, { tensor, isTransposed: false, outputs: n });
  },
};
