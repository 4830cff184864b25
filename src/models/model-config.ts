// Reads a model's config.json into the shape of the model, with the conventions of each architecture applied.

import { join } from 'node:path';
import { z } from 'zod';
import { ModelLoadError } from '../errors.ts';
import type { StorageDType } from '../ops/dtype.ts';
import { readJsonIfPresent } from './json-file.ts';
import { longestContext, type RopeConfig, resolveRope, ropeFields } from './rope-config.ts';

/** What svc can load; `registry.ts` has a layer for each. */
export const ARCHITECTURES = [
  'LlamaForCausalLM',
  'MistralForCausalLM',
  'Qwen2ForCausalLM',
  'Qwen3ForCausalLM',
] as const;

export type Architecture = (typeof ARCHITECTURES)[number];

export interface ModelConfig {
  readonly architecture: Architecture;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  /** Numbers of a head, the first ones, that positions rotate: all but where `partial_rotary_factor` says less. */
  readonly rotaryDim: number;
  /** Longest context in tokens that the model is made for, the stretching of its positions included. */
  readonly maxPositionEmbeddings: number;
  readonly rmsNormEps: number;
  readonly rope: RopeConfig;
  readonly tieWordEmbeddings: boolean;
  readonly attentionBias: boolean;
  readonly mlpBias: boolean;
  /** Of config.json; generation_config.json may name more. */
  readonly eosTokenIds: readonly number[];
  /** Format in which the weights are said to be published; null where config.json does not say. */
  readonly checkpointDType: StorageDType | null;
  /** Tokens that a layer with a window sees; null where no layer has one. */
  readonly slidingWindow: number | null;
  /** [numLayers] window of each layer, null is the whole context. */
  readonly layerWindows: readonly (number | null)[];
}

const size = z.int().positive();
/** More than any model has: a number beyond it is a mistake, and would keep the loader busy for hours. */
const MAX_LAYERS = 10_000;
const flag = z.boolean().nullish();

const schema = z.object({
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size.max(MAX_LAYERS),
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  hidden_act: z.string().nullish(),
  max_position_embeddings: size,
  rms_norm_eps: z.number().positive().nullish(),
  rope_theta: z.number().positive().nullish(),
  rope_scaling: ropeFields.nullish(),
  rope_parameters: ropeFields.nullish(),
  original_max_position_embeddings: size.nullish(),
  partial_rotary_factor: z.number().positive().max(1).nullish(),
  tie_word_embeddings: flag,
  attention_bias: flag,
  mlp_bias: flag,
  eos_token_id: z.union([z.int(), z.array(z.int())]).nullish(),
  torch_dtype: z.string().nullish(),
  dtype: z.string().nullish(),
  sliding_window: size.nullish(),
  use_sliding_window: flag,
  max_window_layers: z.int().nonnegative().nullish(),
  layer_types: z.array(z.string()).nullish(),
  quantization_config: z.object({ quant_method: z.string().nullish() }).nullish(),
});

type Fields = z.infer<typeof schema>;

const named = z.object({ architectures: z.array(z.string()).nullish() });

const DTYPES: Readonly<Record<string, StorageDType>> = { float32: 'f32', float16: 'f16', bfloat16: 'bf16' };

/**
 * Reads config.json; no weights are touched.
 * @throws ModelLoadError naming the file, the field and what was expected.
 */
export function readModelConfig(folder: string): ModelConfig {
  const path = join(folder, 'config.json');
  const architecture = readArchitecture(path);
  const fields = readJsonIfPresent(path, schema)!;
  refuseUnsupported(path, fields);
  const numKvHeads = fields.num_key_value_heads ?? fields.num_attention_heads;
  if (fields.num_attention_heads % numKvHeads !== 0) {
    throw new ModelLoadError(
      `${path}: num_attention_heads must be a multiple of num_key_value_heads, ` +
        `got ${fields.num_attention_heads} and ${numKvHeads}`,
    );
  }
  const headDim = resolveHeadDim(path, architecture, fields);
  const rotaryDim = resolveRotaryDim(path, fields, headDim);
  const rope = resolveRopeOf(path, fields, rotaryDim);
  const layerWindows = resolveWindows(path, architecture, fields);
  return {
    architecture,
    vocabSize: fields.vocab_size,
    hiddenSize: fields.hidden_size,
    intermediateSize: fields.intermediate_size,
    numLayers: fields.num_hidden_layers,
    numHeads: fields.num_attention_heads,
    numKvHeads,
    headDim,
    rotaryDim,
    maxPositionEmbeddings: longestContext(rope, fields.max_position_embeddings),
    rmsNormEps: fields.rms_norm_eps ?? 1e-6,
    rope,
    tieWordEmbeddings: fields.tie_word_embeddings ?? false,
    attentionBias: fields.attention_bias ?? false,
    mlpBias: fields.mlp_bias ?? false,
    eosTokenIds: [fields.eos_token_id ?? []].flat(),
    checkpointDType: resolveDType(path, fields.dtype ?? fields.torch_dtype),
    slidingWindow: layerWindows.find((window) => window !== null) ?? null,
    layerWindows,
  };
}

/** The name is looked at first: the fields of an unknown architecture may be anything. */
function readArchitecture(path: string): Architecture {
  const config = readJsonIfPresent(path, named);
  if (config === null) {
    throw new ModelLoadError(`${path} is missing: a model folder holds config.json and *.safetensors`);
  }
  const names = config.architectures ?? [];
  const known = ARCHITECTURES.find((architecture) => names.includes(architecture));
  if (known !== undefined) return known;
  const got = names.length > 0 ? names.join(', ') : 'none';
  throw new ModelLoadError(
    `${path}: architecture ${got} is not supported; supported are ${ARCHITECTURES.join(', ')}`,
  );
}

function refuseUnsupported(path: string, fields: Fields): void {
  const activation = fields.hidden_act ?? 'silu';
  if (activation !== 'silu' && activation !== 'swish') {
    throw new ModelLoadError(`${path}: hidden_act must be silu, got ${JSON.stringify(activation)}`);
  }
  if (fields.quantization_config) {
    const method = fields.quantization_config.quant_method ?? 'unnamed';
    throw new ModelLoadError(
      `${path}: quantised weights (quantization_config, ${method}) are not supported; ` +
        'use a float32, float16 or bfloat16 release of the model',
    );
  }
}

function resolveHeadDim(path: string, architecture: Architecture, fields: Fields): number {
  // Qwen3 fixes 128 whatever the width of the model; the others divide the width.
  const usual = architecture === 'Qwen3ForCausalLM' ? 128 : fields.hidden_size / fields.num_attention_heads;
  const headDim = fields.head_dim ?? usual;
  if (Number.isInteger(headDim) && headDim % 2 === 0) return headDim;
  throw new ModelLoadError(
    `${path}: head_dim must be an even number, got ${headDim} ` +
      `(hidden_size ${fields.hidden_size}, num_attention_heads ${fields.num_attention_heads})`,
  );
}

/** Newer files have the factor among the parameters of the rotation, older ones beside them. */
function resolveRotaryDim(path: string, fields: Fields, headDim: number): number {
  const { rope_parameters, rope_scaling, partial_rotary_factor } = fields;
  const factor =
    rope_parameters?.partial_rotary_factor ??
    rope_scaling?.partial_rotary_factor ??
    partial_rotary_factor ??
    1;
  const rotaryDim = Math.trunc(headDim * factor);
  if (rotaryDim > 0 && rotaryDim % 2 === 0) return rotaryDim;
  throw new ModelLoadError(
    `${path}: partial_rotary_factor must leave an even number of a head's ${headDim} numbers, ${factor} leaves ${rotaryDim}`,
  );
}

function resolveRopeOf(path: string, fields: Fields, rotaryDim: number): RopeConfig {
  const merged = { ...fields.rope_scaling, ...fields.rope_parameters };
  merged.original_max_position_embeddings ??= fields.original_max_position_embeddings;
  return resolveRope({
    path,
    fields: merged,
    theta: merged.rope_theta ?? fields.rope_theta ?? 10000,
    maxPositionEmbeddings: fields.max_position_embeddings,
    rotaryDim,
  });
}

function resolveDType(path: string, name: string | null | undefined): StorageDType | null {
  if (!name) return null;
  const dtype = DTYPES[name.replace('torch.', '')];
  if (dtype !== undefined) return dtype;
  throw new ModelLoadError(
    `${path}: dtype must be float32, float16 or bfloat16, got ${JSON.stringify(name)}`,
  );
}

/** Mistral has one window for all layers; Qwen only where `use_sliding_window`, from `max_window_layers` on. */
function resolveWindows(path: string, architecture: Architecture, fields: Fields): (number | null)[] {
  const count = fields.num_hidden_layers;
  const types = fields.layer_types;
  if (types && types.length !== count) {
    throw new ModelLoadError(`${path}: layer_types must name ${count} layers, got ${types.length}`);
  }
  const window = configuredWindow(architecture, fields);
  const isQwen = architecture === 'Qwen2ForCausalLM' || architecture === 'Qwen3ForCausalLM';
  const firstWithWindow = isQwen ? (fields.max_window_layers ?? 28) : 0;
  return Array.from({ length: count }, (_, layer) => {
    const slides = types ? types[layer] === 'sliding_attention' : layer >= firstWithWindow;
    return slides ? window : null;
  });
}

function configuredWindow(architecture: Architecture, fields: Fields): number | null {
  switch (architecture) {
    case 'LlamaForCausalLM':
      return null;
    case 'MistralForCausalLM':
      // The first release left its 4096 to the default; later ones say null.
      return fields.sliding_window === undefined ? 4096 : fields.sliding_window;
    case 'Qwen2ForCausalLM':
    case 'Qwen3ForCausalLM':
      return fields.use_sliding_window ? (fields.sliding_window ?? 4096) : null;
  }
}
