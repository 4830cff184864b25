// Llama 4 (Scout, Maverick), the part that reads text: layers that rotate see chunks of tokens and have norms of heads without weights;
// every fourth layer knows no positions and sees all, with queries that count more at later ones. Experts whose weights multiply what they
// see stand beside a shared one, in each layer or in every other (Meta, 2025).

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { type ExpertsConfig, expectExperts } from '../experts-config.ts';
import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { expertsOrMlp, loadMixture, SharedExpert } from '../layers/mixture.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { shortContext } from '../layers/rope.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import type { QueryGrowth } from '../query-growth.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { rotatingLayers } from './smollm3.ts';

export const llama4: Architecture = {
  architectures: ['Llama4ForCausalLM'],
  readConfig: readText,
  load: (context) =>
    loadDecoder(context, {
      layer: preNormLayer({ attention, feedForward: expertsOrMlp(experts), feedForwardName: 'feed_forward' }),
    }),
};

export const llama4Whole: Architecture = {
  ...llama4,
  architectures: ['Llama4ForConditionalGeneration'],
  readConfig: (file) => ({ ...readText(textPart(file)), tensorNames: IN_WHOLE }),
};

const size = z.int().positive();
const ownFields = z.looseObject({
  /** Of an expert, and of the MLP of a layer without them. */
  intermediate_size: size,
  intermediate_size_mlp: size.default(16_384),
  num_local_experts: size.default(16),
  num_experts_per_tok: size.default(1),
  interleave_moe_layer_step: size.nullish(),
  moe_layers: z.array(z.int().nonnegative()).nullish(),
  attention_chunk_size: size.nullable().default(8192),
  use_qk_norm: z.boolean().default(true),
  /** The first releases have a number above 0. */
  attn_temperature_tuning: z.union([z.boolean(), z.int()]).default(true),
  floor_scale: size.default(8192),
  attn_scale: z.number().nonnegative().default(0.1),
  no_rope_layers: z.array(z.int()).nullish(),
  layer_types: z.array(z.enum(['chunked_attention', 'full_attention'])).nullish(),
});

type OwnFields = z.infer<typeof ownFields>;

function readText(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const usual = inUsualFields(own);
  const config = readDecoderConfig({ ...file, json: usual }, (fields) => {
    const rotates = rotatingLayers({ ...file, json: usual }, fields.num_hidden_layers);
    return {
      normEps: fields.rms_norm_eps ?? 1e-5,
      headDim: fields.head_dim ?? 128,
      qkvBias: fields.attention_bias,
      attentionOutputBias: fields.attention_bias,
      hasHeadNorms: own.use_qk_norm,
      slidingWindow: fields.sliding_window ?? null,
      slides: rotates,
      ropeTheta: 500_000,
      ropeIsInterleaved: true,
      ropeOf: ({ index }, rope) => (rotates(index) ? rope : null),
    };
  });
  return {
    ...config,
    windowsAreChunks: true,
    queryGrowth: own.attn_temperature_tuning ? queryGrowth(file, own, config) : null,
    experts: readExperts(file, own, config),
  };
}

/** What other architectures call otherwise; the first releases name no layers where they are the usual ones. */
function inUsualFields(own: OwnFields): object {
  const types = own.layer_types?.map((type) => (type === 'chunked_attention' ? 'sliding_attention' : type));
  return {
    ...own,
    intermediate_size: own.intermediate_size_mlp,
    sliding_window: own.attention_chunk_size,
    layer_types: types,
    no_rope_layers: own.no_rope_layers?.length ? own.no_rope_layers : null,
  };
}

function queryGrowth({ path }: ConfigFile, own: OwnFields, config: ModelConfig): QueryGrowth {
  if (shortContext(config.layerRopes, config.longestContext) !== null)
    throw new ModelLoadError(
      `${path}: attn_temperature_tuning is served with rotations that are one for all contexts; use a release of the model with such a ` +
        'config.json',
    );
  return { beta: own.attn_scale, original: own.floor_scale, first: 1, layers: 'without positions' };
}

function readExperts({ path }: ConfigFile, own: OwnFields, { layerWindows }: ModelConfig): ExpertsConfig {
  const step = own.interleave_moe_layer_step ?? 1;
  return expectExperts(path, {
    count: own.num_local_experts,
    intermediateSize: own.intermediate_size,
    routing: { topK: own.num_experts_per_tok, scores: 'sigmoid', isNormalized: false, weighsInputs: true },
    sharedIntermediateSize: own.intermediate_size,
    layers: layerWindows.map((_, layer) => own.moe_layers?.includes(layer) ?? (layer + 1) % step === 0),
  });
}

/** Heads are normalised where they are rotated, and behind it. */
const attention: LoadBlock = (context, layer, prefix) => {
  const { config, weights } = context;
  const isNormalised = config.hasHeadNorms && config.layerRopes[layer] !== null;
  const ones = isNormalised ? weights.constant(config.headDim, 1) : null;
  return attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    headNorms: ones ? { query: ones, key: ones, eps: config.normEps } : undefined,
    rotatesFirst: true,
    output: outputProjection(context, `${prefix}.o_proj`),
  });
};

const experts: LoadBlock = (context, layer, prefix) => {
  const { intermediateSize } = context.config.experts!;
  const shared = { ...context, config: { ...context.config, intermediateSize } };
  return new SharedExpert(
    loadMixture(context, prefix, { router: `${prefix}.router` }),
    gatedMlp(shared, layer, `${prefix}.shared_expert`),
  );
};
