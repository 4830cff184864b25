// The format of AWQ: codes of eight outputs in a word, each group with a scale and a zero.
// Source: Lin et al., "AWQ: Activation-aware Weight Quantization for LLM Compression and Acceleration", 2023, and the
// tensors that AutoAWQ publishes.

import * as z from 'zod';
import { groupSizeFor } from './group-size.ts';
import type { QuantizationMethod } from './method.ts';

const schema = z.object({
  bits: z.literal(4),
  group_size: z.int(),
  zero_point: z.literal(true).nullish(),
  version: z.string().toLowerCase().pipe(z.literal('gemm')).nullish(),
});
type Config = z.output<typeof schema>;

const OUTPUTS_IN_WORD = 8;

export const awq: QuantizationMethod<Config> = {
  schema,
  served: '4 bits with zero points, version gemm,',
  finder:
    ({ group_size }) =>
    (checkpoint, projection) => {
      const { name, n, k } = projection;
      if (!checkpoint.has(`${name}.qweight`)) return null;
      const groupSize = groupSizeFor(checkpoint, group_size, projection);
      const groups = groupSize === null ? 1 : k / groupSize;
      const words = n / OUTPUTS_IN_WORD;
      const zeros = checkpoint.findAs(`${name}.qzeros`, [groups, words], ['i32']);
      return {
        kind: 'codes',
        format: { kind: 'int4', groupSize, hasZeros: true },
        shape: [n, k],
        tensor: checkpoint.findAs(`${name}.qweight`, [k, words], ['i32']),
        order: 'awq',
        scales: { tensor: checkpoint.find(`${name}.scales`, [groups, n]), isTransposed: true, outputs: 1 },
        zeros: { order: 'awq', tensor: zeros, less: 0 },
        inputGroups: null,
      };
    },
};
