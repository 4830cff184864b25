// The shape of a decoder-only model, from its config.json: what all architectures read alike. What is an architecture's own
// is a trait, which its file makes of the fields.

import { z } from 'zod';
import { ModelLoadError } from '../errors.ts';
import type { FloatDType } from '../ops/dtype.ts';
import { checkModelJson } from '../util/model-file.ts';
import { type PublishedQuantization, readQuantization } from './quantization/published-quantization.ts';
import { longestContext, type RopeConfig, resolveRope, ropeFields } from './rope-config.ts';

/** config.json, in which an architecture was recognised. */
export interface ConfigFile {
  readonly path: string;
  readonly architecture: string;
  readonly json: unknown;
}

export interface ModelConfig {
  readonly architecture: string;
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
  readonly qkvBias: boolean;
  readonly attentionOutputBias: boolean;
  readonly mlpBias: boolean;
  /** Whether each head of queries and keys is normalised before it is rotated. */
  readonly hasHeadNorms: boolean;
  /** Of config.json; generation_config.json may name more. */
  readonly eosTokenIds: readonly number[];
  /** Format in which the weights are said to be published; null where config.json does not say. */
  readonly checkpointDType: FloatDType | null;
  /** How the weights are published; null is as floats. */
  readonly quantization: PublishedQuantization | null;
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
  quantization_config: z.unknown().optional(),
});

export type ConfigFields = z.infer<typeof schema>;

/** What an architecture makes of the fields of config.json; what it leaves out, its models do not have. */
export interface DecoderTraits {
  /** Left out: `head_dim`, or else the width of the model divided among its heads. */
  readonly headDim?: number;
  /** Tokens that a layer with a window sees. */
  readonly slidingWindow?: number | null;
  /** Layers before it have no window; `layer_types`, where config.json has it, decides instead. */
  readonly firstWindowLayer?: number;
  readonly qkvBias?: Flag;
  readonly attentionOutputBias?: Flag;
  readonly mlpBias?: Flag;
  readonly hasHeadNorms?: boolean;
}

type Flag = z.infer<typeof flag>;

const DTYPES: Readonly<Record<string, FloatDType>> = { float32: 'f32', float16: 'f16', bfloat16: 'bf16' };

/** @throws ModelLoadError naming the file, the field and what was expected. */
export function readDecoderConfig(
  file: ConfigFile,
  traitsOf: (fields: ConfigFields) => DecoderTraits,
): ModelConfig {
  const { path, architecture } = file;
  const fields = checkModelJson(path, file.json, schema);
  refuseUnsupported(path, fields);
  const numKvHeads = fields.num_key_value_heads ?? fields.num_attention_heads;
  if (fields.num_attention_heads % numKvHeads !== 0) {
    throw new ModelLoadError(
      `${path}: num_attention_heads must be a multiple of num_key_value_heads, ` +
        `got ${fields.num_attention_heads} and ${numKvHeads}`,
    );
  }
  const traits = traitsOf(fields);
  const headDim = resolveHeadDim(path, fields, traits);
  const rotaryDim = resolveRotaryDim(path, fields, headDim);
  const rope = resolveRopeOf(path, fields, rotaryDim);
  const layerWindows = resolveWindows(path, fields, traits);
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
    qkvBias: traits.qkvBias ?? false,
    attentionOutputBias: traits.attentionOutputBias ?? false,
    mlpBias: traits.mlpBias ?? false,
    hasHeadNorms: traits.hasHeadNorms ?? false,
    eosTokenIds: [fields.eos_token_id ?? []].flat(),
    checkpointDType: resolveDType(path, fields.dtype ?? fields.torch_dtype),
    quantization: readQuantization(path, fields.quantization_config),
    slidingWindow: layerWindows.find((window) => window !== null) ?? null,
    layerWindows,
  };
}

function refuseUnsupported(path: string, fields: ConfigFields): void {
  const activation = fields.hidden_act ?? 'silu';
  if (activation !== 'silu' && activation !== 'swish') {
    throw new ModelLoadError(`${path}: hidden_act must be silu, got ${JSON.stringify(activation)}`);
  }
}

function resolveHeadDim(path: string, fields: ConfigFields, traits: DecoderTraits): number {
  const headDim = traits.headDim ?? fields.head_dim ?? fields.hidden_size / fields.num_attention_heads;
  if (Number.isInteger(headDim) && headDim % 2 === 0) return headDim;
  throw new ModelLoadError(
    `${path}: head_dim must be an even number, got ${headDim} ` +
      `(hidden_size ${fields.hidden_size}, num_attention_heads ${fields.num_attention_heads})`,
  );
}

/** Newer files have the factor among the parameters of the rotation, older ones beside them. */
function resolveRotaryDim(path: string, fields: ConfigFields, headDim: number): number {
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

function resolveRopeOf(path: string, fields: ConfigFields, rotaryDim: number): RopeConfig {
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

function resolveDType(path: string, name: string | null | undefined): FloatDType | null {
  if (!name) return null;
  const dtype = DTYPES[name.replace('torch.', '')];
  if (dtype !== undefined) return dtype;
  throw new ModelLoadError(
    `${path}: dtype must be float32, float16 or bfloat16, got ${JSON.stringify(name)}`,
  );
}

function resolveWindows(
  path: string,
  fields: ConfigFields,
  { slidingWindow = null, firstWindowLayer = 0 }: DecoderTraits,
): (number | null)[] {
  const { num_hidden_layers: count, layer_types: types } = fields;
  if (types && types.length !== count) {
    throw new ModelLoadError(`${path}: layer_types must name ${count} layers, got ${types.length}`);
  }
  return Array.from({ length: count }, (_, layer) => {
    const slides = types ? types[layer] === 'sliding_attention' : layer >= firstWindowLayer;
    return slides ? slidingWindow : null;
  });
}
