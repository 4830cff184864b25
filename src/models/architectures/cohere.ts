// Command R (Cohere 1) and Command R7B and A (Cohere 2): attention and feed-forward side by side after one norm, neighbours
// rotated against each other. Command R+ normalises each head of queries and keys. In Cohere 2, three layers of four have a
// window; the others know no positions.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, layerNormOfHeads, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { layerNormWithoutBias } from '../layers/norm.ts';
import { afterOneNorm } from '../layers/residual.ts';
import {
  type ConfigFields,
  type ConfigFile,
  type DecoderTraits,
  readDecoderConfig,
} from '../model-config.ts';

export const cohere: Architecture = {
  architectures: ['CohereForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, (fields) => ({ ...cohereTraits(file, fields), ropeTheta: 500_000 })),
  load: (context) => loadDecoder(context, { layer: parallelLayer, norm: layerNormWithoutBias }),
};

export const cohere2: Architecture = {
  architectures: ['Cohere2ForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, (fields) => {
      const { sliding_window_pattern: pattern } = checkModelJson(file.path, file.json, ownFields);
      return {
        ...cohereTraits(file, fields),
        slidingWindow: fields.sliding_window === undefined ? 4096 : fields.sliding_window,
        slides: (layer) => (layer + 1) % (pattern ?? 4) !== 0,
        ropeOf: ({ isSliding }, rope) => (isSliding ? rope : null),
      };
    }),
  load: cohere.load,
};

const ownFields = z.object({
  logit_scale: z.number().positive().nullish(),
  layer_norm_eps: z.number().positive().nullish(),
  use_qk_norm: z.boolean().nullish(),
  sliding_window_pattern: z.int().positive().nullish(),
});

function cohereTraits({ path, json }: ConfigFile, { attention_bias }: ConfigFields): DecoderTraits {
  const own = checkModelJson(path, json, ownFields);
  return {
    normEps: own.layer_norm_eps ?? 1e-5,
    hasHeadNorms: own.use_qk_norm ?? false,
    ropeIsInterleaved: true,
    qkvBias: attention_bias,
    attentionOutputBias: attention_bias,
    logitScale: own.logit_scale ?? 0.0625,
    tieWordEmbeddings: true,
  };
}

const parallelLayer: LoadLayer = (context, layer, prefix) =>
  afterOneNorm(
    layerNormWithoutBias(context, `${prefix}.input_layernorm`),
    cohereAttention(context, layer, `${prefix}.self_attn`),
    gatedMlp(context, layer, `${prefix}.mlp`),
  );

const cohereAttention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    ...(context.config.hasHeadNorms ? ownHeadNorms(context, prefix) : {}),
    output: outputProjection(context, `${prefix}.o_proj`),
  });

/** Each head has a weight of its own. */
function ownHeadNorms({ config, weights }: LayerContext, prefix: string) {
  const { numHeads, numKvHeads, headDim } = config;
  const load = (name: string, heads: number) =>
    layerNormOfHeads(config, weights.headVectors(`${prefix}.${name}.weight`, heads, headDim));
  return { queryNorm: load('q_norm', numHeads), keyNorm: load('k_norm', numKvHeads) };
}
