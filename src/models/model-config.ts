// The shape of a model, from its config.json: what all architectures read alike. What is an architecture's own
// is a trait, which its file makes of the fields.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import type { Activation } from '../ops/activation.ts';
import type { FloatDType } from '../ops/dtype.ts';
import type { KvHeads, RopeSections } from '../ops/ops.ts';
import { checkModelJson } from '../util/model-file.ts';
import { preview } from '../util/preview.ts';
import type { ExpertsConfig } from './experts-config.ts';
import type { PooledRows, PoolingConfig } from './pooling/pooling-config.ts';
import { type PublishedQuantization, readQuantization } from './quantization/published-quantization.ts';
import type { QueryGrowth } from './query-growth.ts';
import type { RecurrentConfig } from './recurrent-config.ts';
import { contextLengths, type RopeConfig, type RopeFields, resolveRope, ropeFields } from './rope-config.ts';
import { type PublishedNames, USUAL_NAMES } from './tensor-names.ts';

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
  /** [numLayers] where layers have other heads than each other; null where all are as the three fields before say. */
  readonly layerHeads: readonly LayerHeads[] | null;
  /** Longest context in tokens with the numbers of the original, the stretching of its positions included. */
  readonly maxPositionEmbeddings: number;
  /** Longest context that may be asked for: more where positions can be stretched by what is served. */
  readonly longestContext: number;
  readonly normEps: number;
  /** Of the feed-forward. */
  readonly activation: Activation;
  /** [numLayers] how each layer rotates queries and keys; null is not at all. Layers that rotate alike have the same object. */
  readonly layerRopes: readonly (RopeConfig | null)[];
  /** Whether neighbours are rotated against each other (2i, 2i + 1), rather than the halves of a head (i, i + rotaryDim / 2). */
  readonly ropeIsInterleaved: boolean;
  /** Of models in which tokens of images lie in a plane; null where all pairs turn by the position. */
  readonly ropeSections: RopeSections | null;
  /** Of models whose queries count more at later positions; null where all count alike. */
  readonly queryGrowth: QueryGrowth | null;
  /** [numLayers] factor on q·k. */
  readonly attentionScales: readonly number[];
  /** Bound of the logits of attention, see `ops.attention`; null is none. */
  readonly attentionSoftcap: number | null;
  /** Bound of the numbers of queries, keys and values, see `ops.clip`; null is none. */
  readonly qkvClip: number | null;
  /** Factors on embeddings, on what a block adds to the residual stream, and on logits. */
  readonly embeddingScale: number;
  readonly residualScale: number;
  readonly logitScale: number;
  /** Bound of the logits, see `ops.softcap`; null is none. */
  readonly logitSoftcap: number | null;
  readonly tensorNames: PublishedNames;
  readonly tieWordEmbeddings: boolean;
  readonly qkvBias: boolean;
  readonly attentionOutputBias: boolean;
  readonly mlpBias: boolean;
  /** Of an output head that is not tied to the embeddings. */
  readonly headBias: boolean;
  /** Whether each head of queries and keys is normalised before it is rotated. */
  readonly hasHeadNorms: boolean;
  /** Whether attention and feed-forward of a layer see the same stream, where an architecture has both kinds of layers. */
  readonly hasParallelBlocks: boolean;
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
  /** Whether a token sees those of its window alone that are in its chunk: tokens from a multiple of the window up to the next. */
  readonly windowsAreChunks: boolean;
  /** Of layers that are a mixture of experts; null where there are none. */
  readonly experts: ExpertsConfig | null;
  /** Of latent attention; null where attention is over keys and values. */
  readonly latent: LatentConfig | null;
  /** Of layers that see the keys and values of an earlier one; null where each has its own. */
  readonly sharedKeys: SharedKeysConfig | null;
  /** Of the embeddings that each layer gets of each token for itself; null where the stream is all that layers see. */
  readonly layerInputs: LayerInputsConfig | null;
  /** [numLayers] of the feed-forwards, where layers have other widths than each other; null where all have `intermediateSize`. */
  readonly layerWidths: readonly number[] | null;
  /** Of a stream that is several streams, of which the blocks of a layer see one; null where it is one. */
  readonly streams: StreamsConfig | null;
  /** Numbers between the two products beside attention; null where there are none. */
  readonly laurelRank: number | null;
  /**
   * [numLayers] so many standard deviations above their mean gates of the feed-forward must be to let anything through; null where all do,
   * of a layer or of all.
   */
  readonly gateDeviations: readonly (number | null)[] | null;
  /** Of the part that sees images; null where the model only reads text. */
  readonly vision: VisionConfig | null;
  /** Of models whose tokens see those after them, too; null where they do not. */
  readonly encoder: EncoderConfig | null;
  /** Of layers that keep a state of each sequence; null where none does. */
  readonly recurrent: RecurrentConfig | null;
  /** On what blocks add to the residual stream, and on gates of feed-forwards; null where all are 1. */
  readonly blockFactors: BlockFactors | null;
  /** [numLayers] whether a layer is a feed-forward alone, which keeps nothing of a sequence; null where none is. */
  readonly feedForwards: readonly boolean[] | null;
  /** What it makes of a sequence in the place of tokens; null where it generates. */
  readonly pooling: PoolingConfig | null;
  /** Layers of the checkpoint behind the last: they guess the tokens after the next, and are not computed. */
  readonly numDraftLayers: number;
}

/** The part of a model that sees images: its layers are those of an encoder, to which each patch of an image is a token. */
export interface VisionConfig {
  /** Its layers. They have no vocabulary: its size is any. */
  readonly layers: ModelConfig;
  /** Pixels of a patch on each side. */
  readonly patchSize: number;
  /** Patches of the largest square picture on each side. */
  readonly patchesPerSide: number;
  /** So many neighbours on each side become one row. */
  readonly mergeSize: number;
  /** Tokens of an image where those see each other in the part that reads text, too; null where each sees only those before it. */
  readonly wholeImageTokens: number | null;
  /** Whether they do so in layers with a window alone. */
  readonly wholeInWindows: boolean;
  /** What a patch is told of: an image is a film of so many frames in which nothing moves. */
  readonly frames: number;
  /** Of layers whose patches see only those of their window; null where all see the whole tile. */
  readonly windows: WindowsConfig | null;
  /** Whether a token for the whole tile is seen before its patches, of which no row is made. */
  readonly hasTileToken: boolean;
  /** Learned positions: of the square that is stretched over each tile, or of lines and of columns; null where there are none. */
  readonly positionsPerSide: number | null;
  /** Numbers of the layers whose rows the first layers of the text part get, too, one after the other. */
  readonly deepLayers: readonly number[];
  /** Whether rows are standardised by numbers of the checkpoint before they are projected. */
  readonly isStandardized: boolean;
  /** Whether what its products take and give is bounded by numbers of the checkpoint. */
  readonly hasBounds: boolean;
  /** Of what brings rows to the width of the text part, where that is for config.json to say; null where the architecture knows it. */
  readonly projector: ProjectorConfig | null;
}

export interface ProjectorConfig {
  /** Between its two products. */
  readonly width: number;
  readonly hasBias: boolean;
  /** Whether rows are normalised before. */
  readonly hasNorm: boolean;
}

export interface WindowsConfig {
  /** Of a window, in patches. */
  readonly side: number;
  /** Numbers of the layers whose patches see the whole tile. */
  readonly wholeLayers: readonly number[];
}

/** The heads of a layer: see the fields of the same names of `ModelConfig`. */
export interface LayerHeads extends KvHeads {
  readonly rotaryDim: number;
  /** Whether values are made of what keys are made of, by norms of their own. */
  readonly valuesAreKeys: boolean;
}

export interface BlockFactors {
  readonly attention: number;
  readonly scan: number;
  readonly gate: number;
  readonly feedForward: number;
}

export interface SharedKeysConfig {
  /** [numLayers] the layer whose keys and values a layer sees: itself, or an earlier one that sees as far. */
  readonly sources: readonly number[];
}

export interface LayerInputsConfig {
  /** Numbers of the embedding of a token for one layer. */
  readonly width: number;
  /** Tokens that have one, the first of the vocabulary. */
  readonly tokens: number;
  /** The token whose embedding those of images have; left out where there are no images. */
  readonly ofImages?: number;
}

export interface StreamsConfig {
  readonly count: number;
  /** The one that blocks see. */
  readonly active: number;
  /** Whether what the layer's own input is let through by has a factor for each number. */
  readonly hasOutputScale: boolean;
}

export interface EncoderConfig {
  /** Rows of the table of positions from that of the first one on, and before it; null where positions are not learned. */
  readonly positions: { readonly count: number; readonly offset: number } | null;
  /** Kinds of tokens that have an embedding: those of a first and of a second text; 0 where there are none. */
  readonly numTokenTypes: number;
  /** What stands for a sequence where no file says it. */
  readonly pooledRows: PooledRows;
}

/** Numbers a token of the vectors of latent attention; the last three are those of a head. */
export interface LatentConfig {
  /** The latent: keys and values, compressed. */
  readonly rank: number;
  /** Queries, compressed; null where they are not. */
  readonly queryRank: number | null;
  /** Of a query and key, what is not rotated and what is. */
  readonly nopeDim: number;
  readonly ropeDim: number;
  readonly valueDim: number;
}

export function layerHeadsOf(
  { layerHeads, numKvHeads: kvHeads, headDim, rotaryDim }: ModelConfig,
  layer: number,
): LayerHeads {
  return layerHeads?.[layer] ?? { kvHeads, headDim, rotaryDim, valuesAreKeys: false };
}

const size = z.int().positive();
/** More than any model has: a number beyond is a mistake, and would keep the loader busy for hours. */
export const MAX_LAYERS = 10_000;
const MAX_HEADS = 10_000;
/** Of a head: the widest published ones have some hundred. */
export const MAX_HEAD_DIM = 8192;
/** What attention can count to. */
const MAX_WINDOW = 2 ** 31 - 1;
const flag = z.boolean().nullish();

const schema = z.object({
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size.max(MAX_LAYERS),
  num_attention_heads: size.max(MAX_HEADS),
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
  /** Some write 0 where there is none. */
  sliding_window: z
    .int()
    .nonnegative()
    .max(MAX_WINDOW)
    .transform((tokens) => tokens || null)
    .nullish(),
  use_sliding_window: flag,
  max_window_layers: z.int().nonnegative().nullish(),
  layer_types: z.array(z.string()).nullish(),
  quantization_config: z.unknown().optional(),
});

export type ConfigFields = z.infer<typeof schema>;

/** What an architecture makes of the fields of config.json; what it leaves out, its models do not have. */
export interface DecoderTraits {
  /** Left out: `rms_norm_eps`. */
  readonly normEps?: number;
  /** Left out: `hidden_act`. */
  readonly activation?: string;
  readonly tieWordEmbeddings?: boolean;
  /** Left out: `head_dim`, or else the width of the model divided among its heads. */
  readonly headDim?: number | undefined;
  /** Tokens that a layer with a window sees. */
  readonly slidingWindow?: number | null;
  /** Whether a layer has the window; `layer_types`, where config.json has it, decides instead. Left out: each has. */
  readonly slides?: (layer: number) => boolean;
  readonly qkvBias?: Flag;
  readonly attentionOutputBias?: Flag;
  readonly mlpBias?: Flag;
  readonly headBias?: Flag;
  readonly hasHeadNorms?: boolean;
  readonly hasParallelBlocks?: boolean;
  /** How positions rotate where config.json does not say; left out: without stretching. */
  readonly rope?: RopeFields;
  /** Where config.json has no `rope_theta`; left out: 10000. */
  readonly ropeTheta?: number;
  /** Share of a head that positions rotate, where config.json has no `partial_rotary_factor`; left out: all. */
  readonly rotaryFactor?: number;
  readonly ropeIsInterleaved?: boolean;
  readonly ropeSections?: RopeSections;
  /** How a layer rotates, where that is not as the config's rotation says for all. */
  readonly ropeOf?: (layer: LayerKind, rope: RopeConfig) => RopeConfig | null;
  /** Left out: 1 / sqrt(headDim). */
  readonly attentionScale?: number;
  /** Whether the scale of attention is divided by the layer's number, from 1 on. */
  readonly dividesScaleByLayer?: boolean;
  readonly attentionSoftcap?: number | null;
  readonly qkvClip?: number | null;
  readonly embeddingScale?: number;
  readonly residualScale?: number;
  readonly logitScale?: number;
  readonly logitSoftcap?: number | null;
  /** Left out: those that most architectures use. */
  readonly tensorNames?: PublishedNames;
}

/** What decides how a layer rotates. */
interface LayerKind {
  readonly index: number;
  /** Whether it is of the layers with a window; a config.json may give them one that is null. */
  readonly isSliding: boolean;
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
  const traits = traitsOf(fields);
  return {
    architecture,
    vocabSize: fields.vocab_size,
    hiddenSize: fields.hidden_size,
    intermediateSize: fields.intermediate_size,
    numLayers: fields.num_hidden_layers,
    normEps: traits.normEps ?? fields.rms_norm_eps ?? 1e-6,
    activation: resolveActivation(path, traits.activation ?? fields.hidden_act ?? 'silu'),
    ...attentionFields(path, fields, traits),
    ...plainTraits(traits),
    tieWordEmbeddings: fields.tie_word_embeddings ?? traits.tieWordEmbeddings ?? false,
    eosTokenIds: [fields.eos_token_id ?? []].flat(),
    checkpointDType: resolveDType(path, fields.dtype ?? fields.torch_dtype),
    quantization: readQuantization(path, fields.quantization_config),
    queryGrowth: null,
    windowsAreChunks: false,
    experts: null,
    latent: null,
    sharedKeys: null,
    layerInputs: null,
    layerWidths: null,
    streams: null,
    laurelRank: null,
    gateDeviations: null,
    vision: null,
    encoder: null,
    recurrent: null,
    blockFactors: null,
    feedForwards: null,
    pooling: null,
    numDraftLayers: 0,
  };
}

/** Heads, and what each layer does with positions. */
function attentionFields(path: string, fields: ConfigFields, traits: DecoderTraits) {
  const { num_attention_heads: numHeads, num_key_value_heads, max_position_embeddings } = fields;
  const numKvHeads = num_key_value_heads ?? numHeads;
  if (numHeads % numKvHeads !== 0) {
    throw new ModelLoadError(
      `${path}: num_attention_heads must be a multiple of num_key_value_heads, got ${numHeads} and ${numKvHeads}`,
    );
  }
  const headDim = resolveHeadDim(path, fields, traits);
  const rotaryDim = resolveRotaryDim(path, fields, traits, headDim);
  const rope = resolveRopeOf(path, fields, traits, rotaryDim);
  const slides = resolveSliding(path, fields, traits);
  const layerWindows = slides.map((isSliding) => (isSliding ? (traits.slidingWindow ?? null) : null));
  const { ropeOf = () => rope, attentionScale = 1 / Math.sqrt(headDim) } = traits;
  return {
    numHeads,
    numKvHeads,
    headDim,
    rotaryDim,
    layerHeads: null,
    ...contextLengths(rope, max_position_embeddings),
    layerRopes: slides.map((isSliding, index) => ropeOf({ index, isSliding }, rope)),
    attentionScales: slides.map((_, layer) => attentionScale / (traits.dividesScaleByLayer ? layer + 1 : 1)),
    slidingWindow: layerWindows.find((window) => window !== null) ?? null,
    layerWindows,
  };
}

/** Traits that are fields of the config as they are. */
function plainTraits(traits: DecoderTraits) {
  return {
    ropeIsInterleaved: traits.ropeIsInterleaved ?? false,
    ropeSections: traits.ropeSections ?? null,
    attentionSoftcap: traits.attentionSoftcap ?? null,
    qkvClip: traits.qkvClip ?? null,
    embeddingScale: traits.embeddingScale ?? 1,
    residualScale: traits.residualScale ?? 1,
    logitScale: traits.logitScale ?? 1,
    logitSoftcap: traits.logitSoftcap ?? null,
    tensorNames: traits.tensorNames ?? USUAL_NAMES,
    qkvBias: traits.qkvBias ?? false,
    attentionOutputBias: traits.attentionOutputBias ?? false,
    mlpBias: traits.mlpBias ?? false,
    headBias: traits.headBias ?? false,
    hasHeadNorms: traits.hasHeadNorms ?? false,
    hasParallelBlocks: traits.hasParallelBlocks ?? false,
  };
}

/** By their names in config.json. */
const ACTIVATIONS: Readonly<Record<string, Activation>> = {
  silu: 'silu',
  swish: 'silu',
  gelu: 'gelu',
  gelu_python: 'gelu',
  gelu_new: 'gelu_tanh',
  gelu_fast: 'gelu_tanh',
  gelu_pytorch_tanh: 'gelu_tanh',
  relu: 'relu',
  relu2: 'relu2',
};

function resolveActivation(path: string, name: string): Activation {
  if (Object.hasOwn(ACTIVATIONS, name)) return ACTIVATIONS[name]!;
  throw new ModelLoadError(
    `${path}: hidden_act must be one of ${Object.keys(ACTIVATIONS).join(', ')}, got ${preview(name)}`,
  );
}

function resolveHeadDim(path: string, fields: ConfigFields, traits: DecoderTraits): number {
  const headDim = traits.headDim ?? fields.head_dim ?? fields.hidden_size / fields.num_attention_heads;
  if (headDim % 2 === 0 && headDim <= MAX_HEAD_DIM) return headDim;
  throw new ModelLoadError(
    `${path}: head_dim must be an even number of at most ${MAX_HEAD_DIM}, got ${headDim} ` +
      `(hidden_size ${fields.hidden_size}, num_attention_heads ${fields.num_attention_heads})`,
  );
}

/** Newer files have the factor among the parameters of the rotation, older ones beside them. */
function resolveRotaryDim(
  path: string,
  fields: ConfigFields,
  traits: DecoderTraits,
  headDim: number,
): number {
  const { rope_parameters, rope_scaling, partial_rotary_factor } = fields;
  // There it is a share of the frequencies.
  if (rope_parameters?.rope_type === 'proportional') return headDim;
  const factor =
    rope_parameters?.partial_rotary_factor ??
    rope_scaling?.partial_rotary_factor ??
    partial_rotary_factor ??
    traits.rotaryFactor ??
    1;
  const rotaryDim = Math.trunc(headDim * factor);
  if (rotaryDim > 0 && rotaryDim % 2 === 0) return rotaryDim;
  throw new ModelLoadError(
    `${path}: partial_rotary_factor must leave an even number of a head's ${headDim} numbers, ${factor} leaves ${rotaryDim}`,
  );
}

function resolveRopeOf(
  path: string,
  fields: ConfigFields,
  traits: DecoderTraits,
  rotaryDim: number,
): RopeConfig {
  const given = { ...fields.rope_scaling, ...fields.rope_parameters };
  const merged = Object.keys(given).length > 0 ? given : { ...traits.rope };
  merged.original_max_position_embeddings ??= fields.original_max_position_embeddings;
  return resolveRope({
    path,
    fields: merged,
    theta: merged.rope_theta ?? fields.rope_theta ?? traits.ropeTheta ?? 10000,
    maxPositionEmbeddings: fields.max_position_embeddings,
    rotaryDim,
  });
}

function resolveDType(path: string, name: string | null | undefined): FloatDType | null {
  if (!name) return null;
  const dtype = DTYPES[name.replace('torch.', '')];
  if (dtype !== undefined) return dtype;
  throw new ModelLoadError(`${path}: dtype must be float32, float16 or bfloat16, got ${preview(name)}`);
}

/** [layers] whether each has a window. */
function resolveSliding(
  path: string,
  fields: ConfigFields,
  { slides = () => true }: DecoderTraits,
): boolean[] {
  const { num_hidden_layers: count, layer_types: types } = fields;
  if (types && types.length !== count) {
    throw new ModelLoadError(`${path}: layer_types must name ${count} layers, got ${types.length}`);
  }
  const unknown = types?.find((type) => type !== 'full_attention' && type !== 'sliding_attention');
  if (unknown !== undefined) {
    throw new ModelLoadError(
      `${path}: layer_types must be full_attention or sliding_attention, got ${preview(unknown)}`,
    );
  }
  return Array.from({ length: count }, (_, layer) =>
    types ? types[layer] === 'sliding_attention' : slides(layer),
  );
}
