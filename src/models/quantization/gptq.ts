// The format of GPTQ: codes in words along the inputs, each group with a scale and a zero.
// Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022, and
// the tensors that AutoGPTQ and GPTQModel publish.

import * as z from 'zod';
import { groupSizeFor } from './group-size.ts';
import type { QuantizationMethod } from './method.ts';

const schema = z.object({
  bits: z.union([z.literal(4), z.literal(8)]),
  group_size: z.int(),
  desc_act: z.boolean().nullish(),
  sym: z.boolean().nullish(),
  checkpoint_format: z.enum(['gptq', 'gptq_v2']).nullish(),
  dynamic: z.union([z.null(), z.record(z.string(), z.never())]).optional(),
});
type Config = z.output<typeof schema>;

export const gptq: QuantizationMethod<Config> = {
  schema,
  served: '4 or 8 bits',
  finder:
    ({ bits, group_size, checkpoint_format }) =>
    (checkpoint, projection) => {
      const { name, n, k } = projection;
      if (!checkpoint.has(`${name}.qweight`)) return null;
      const groupSize = groupSizeFor(checkpoint, group_size, projection);
      const groups = groupSize === null ? 1 : k / groupSize;
      const perWord = 32 / bits;
      // Where the zeros are all the same they are published nevertheless.
      const zeros = checkpoint.findAs(`${name}.qzeros`, [groups, n / perWord], ['i32']);
      const inputGroups = `${name}.g_idx`;
      return {
        kind: 'codes',
        format: { kind: bits === 4 ? 'int4' : 'int8', groupSize, hasZeros: true },
        shape: [n, k],
        tensor: checkpoint.findAs(`${name}.qweight`, [k / perWord, n], ['i32']),
        order: 'columns',
        scales: { tensor: checkpoint.find(`${name}.scales`, [groups, n]), isTransposed: true, outputs: 1 },
        zeros: { order: 'columns', tensor: zeros, less: checkpoint_format === 'gptq_v2' ? 0 : 1 },
        inputGroups: checkpoint.has(inputGroups) ? checkpoint.findAs(inputGroups, [k], ['i32']) : null,
      };
    },
};
