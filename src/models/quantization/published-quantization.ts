// Checkpoints whose weights are published as whole numbers: what quantization_config in config.json says of them.

import { z } from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';

/** int8, one scale for each output of a projection, `name.weight_scale`. */
export interface PublishedQuantization {
  /** For messages. */
  readonly method: string;
  /** Whether the projection `name` is left in floats. */
  readonly isIgnored: (name: string) => boolean;
}

const named = z.object({ quant_method: z.string().nullish() });

/** The format of compressed-tensors, as far as it is served: W8A8, whole numbers of 8 bits for weights and inputs. */
const int8 = z.object({ num_bits: z.literal(8), type: z.literal('int'), symmetric: z.literal(true) });
const compressedTensors = z.object({
  format: z.literal('int-quantized'),
  config_groups: z.record(
    z.string(),
    z.object({
      targets: z.tuple([z.literal('Linear')]),
      weights: int8.extend({ strategy: z.literal('channel') }),
      input_activations: int8.extend({ strategy: z.literal('token'), dynamic: z.literal(true) }),
    }),
  ),
  ignore: z.array(z.string()).nullish(),
  kv_cache_scheme: z.null().optional(),
});

/** @throws ModelLoadError naming the scheme, and the field of it that is not served. */
export function readQuantization(path: string, json: unknown): PublishedQuantization | null {
  if (json === null || json === undefined) return null;
  const method = checkModelJson(path, json, named).quant_method ?? 'unnamed';
  if (method !== 'compressed-tensors') throw unsupported(path, method, 'is not served');
  const result = compressedTensors.safeParse(json);
  if (!result.success) {
    const { path: field, message } = result.error.issues[0]!;
    throw unsupported(
      path,
      method,
      `is served as W8A8 with one scale a channel and token only: ${field.join('.')}: ${message}`,
    );
  }
  const rules = (result.data.ignore ?? []).map((text) => ignoreRule(path, text));
  return { method, isIgnored: (name) => rules.some((rule) => rule(name)) };
}

/** A name, or after `re:` an expression for the beginning of one. */
function ignoreRule(path: string, text: string): (name: string) => boolean {
  if (!text.startsWith('re:')) return (name) => name === text;
  try {
    const pattern = new RegExp(`^(?:${text.slice(3)})`);
    return (name) => pattern.test(name);
  } catch (error) {
    throw new ModelLoadError(
      `${path}: "ignore" of quantization_config has ${text}, which is no regular expression`,
      { cause: error },
    );
  }
}

function unsupported(path: string, method: string, why: string): ModelLoadError {
  return new ModelLoadError(
    `${path}: the quantised weights (quantization_config, ${method}) cannot be loaded, ${method} ${why}; ` +
      'use a float32, float16 or bfloat16 release of the model, with --quantization int8 where memory is short',
  );
}
