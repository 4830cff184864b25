// Checkpoints whose weights are published quantised: what quantization_config in config.json says of them, and where a
// projection's numbers are. Each method has a file here.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import { zodMessage } from '../../util/zod-message.ts';
import { awq } from './awq.ts';
import { bitnet } from './bitnet.ts';
import { compressedTensors } from './compressed-tensors.ts';
import { fp8 } from './fp8.ts';
import { gguf } from './gguf.ts';
import { gptq } from './gptq.ts';
import type { FindWeight, QuantizationMethod } from './method.ts';
import { modelopt } from './modelopt.ts';
import { mxfp4 } from './mxfp4.ts';

export interface PublishedQuantization {
  /** For messages. */
  readonly method: string;
  readonly find: FindWeight;
}

const named = z.object({ quant_method: z.string().nullish() });

/** @throws ModelLoadError naming the method, and the field of it that is not served. */
export function readQuantization(path: string, json: unknown): PublishedQuantization | null {
  if (json === null || json === undefined) return null;
  const method = checkModelJson(path, json, named).quant_method ?? 'unnamed';
  const read = <Config>(served: QuantizationMethod<Config>): PublishedQuantization => {
    const result = served.schema.safeParse(json);
    if (!result.success) {
      const why = `is served as ${served.served} only: ${zodMessage(result.error, json, 'quantization_config')}`;
      throw unsupported(path, method, why);
    }
    return { method, find: served.finder(result.data, path) };
  };
  switch (method) {
    case 'compressed-tensors':
      return read(compressedTensors);
    case 'gptq':
      return read(gptq);
    case 'awq':
      return read(awq);
    case 'bitnet':
      return read(bitnet);
    case 'fp8':
      return read(fp8);
    case 'gguf':
      return read(gguf);
    case 'modelopt':
      return read(modelopt);
    case 'mxfp4':
      return read(mxfp4);
    default:
      throw unsupported(
        path,
        method,
        'is not served; compressed-tensors, gptq, awq, fp8, modelopt, mxfp4 and bitnet are',
      );
  }
}

function unsupported(path: string, method: string, why: string): ModelLoadError {
  return new ModelLoadError(
    `${path}: the quantised weights (quantization_config, ${method}) cannot be loaded, ${method} ${why}; ` +
      'use a float32, float16 or bfloat16 release of the model, with --quantization where memory is short',
  );
}
