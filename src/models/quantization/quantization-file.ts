// What NVIDIA's Model Optimizer did to the weights, in a file of its own: older releases say nothing of it in config.json.

import * as z from 'zod';
import { checkModelJson, parseModelJson } from '../../util/model-file.ts';
import type { ModelFiles } from '../../util/model-files.ts';

const withoutQuantization = z.looseObject({ quantization_config: z.null().optional() });
const schema = z.object({ quantization: z.object({ quant_algo: z.string().nullish() }) });

/**
 * The fields of config.json, with `quantization_config` where only that file says how the model is quantised.
 * @throws ModelLoadError where it is of another form.
 */
export function withQuantizationFile(json: unknown, files: ModelFiles): unknown {
  const own = withoutQuantization.safeParse(json);
  const text = own.success ? files.read('hf_quant_config.json') : null;
  if (text === null) return json;
  const { quant_algo } = checkModelJson(text.path, parseModelJson(text, z.unknown()), schema).quantization;
  return quant_algo ? { ...own.data, quantization_config: { quant_method: 'modelopt', quant_algo } } : json;
}
