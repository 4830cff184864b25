// The blocks of GGUF: each tensor says for itself what its numbers are.

import { z } from 'zod';
import { codesOfBlocks } from '../../ops/dtype.ts';
import type { QuantizationMethod } from './method.ts';

export const gguf: QuantizationMethod = {
  schema: z.object({}),
  served: 'blocks',
  finder:
    () =>
    (checkpoint, { name, n, k }) => {
      const weight = `${name}.weight`;
      const dtype = checkpoint.dtypeOf(weight);
      const format = dtype === null ? null : codesOfBlocks(dtype);
      return format === null ? null : { kind: 'blocks', format, tensor: checkpoint.find(weight, [n, k]) };
    },
};
