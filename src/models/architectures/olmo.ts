// OLMo 2 and 3: norms behind the blocks, none before them, and queries and keys normalised over all heads together. In OLMo 3 three
// layers of four have a window, and only the others stretch positions. OLMoE has the norms before the blocks, and experts.
// Sources: Team OLMo, "2 OLMo 2 Furious", 2024, and "Olmo 3", 2025; Muennighoff et al., "OLMoE: Open Mixture-of-Experts Language
// Models", 2024.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import { attentionOf, normOfAllHeads, outputProjection, separateQkv } from '../layers/attention.ts';
import type { Block, LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import { loadMixture } from '../layers/mixture.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { inOrder, residual } from '../layers/residual.ts';
import {
  type ConfigFields,
  type ConfigFile,
  type DecoderTraits,
  type ModelConfig,
  readDecoderConfig,
} from '../model-config.ts';
import { byLayerKind } from '../rope-by-layer-kind.ts';
import type { RopeConfig } from '../rope-config.ts';

export const olmo2: Architecture = {
  architectures: ['Olmo2ForCausalLM'],
  readConfig: (file) => readDecoderConfig(file, olmoTraits),
  load: (context) => loadDecoder(context, { layer: postNormLayer(olmoAttention) }),
};

export const olmo3: Architecture = {
  architectures: ['Olmo3ForCausalLM'],
  readConfig: readOlmo3,
  load: olmo2.load,
};

export const olmoe: Architecture = {
  architectures: ['OlmoeForCausalLM'],
  readConfig: readOlmoe,
  load: (context) =>
    loadDecoder(context, {
      layer: preNormLayer({
        attention: olmoAttention,
        feedForward: (own, _layer, prefix) => loadMixture(own, prefix),
      }),
    }),
};

function olmoTraits(fields: ConfigFields): DecoderTraits {
  return {
    qkvBias: fields.attention_bias,
    attentionOutputBias: fields.attention_bias,
    normEps: fields.rms_norm_eps ?? 1e-5,
  };
}

/** Whatever stretches positions, those of layers with a window stay as they are. */
function readOlmo3(file: ConfigFile): ModelConfig {
  const { far, near } = byLayerKind(file);
  const { rope_theta } = checkModelJson(file.path, file.json, thetaField);
  const local: RopeConfig = { kind: 'default', theta: near?.rope_theta ?? rope_theta ?? 500_000 };
  return readDecoderConfig(far, (fields) => ({
    ...olmoTraits(fields),
    slidingWindow: fields.sliding_window === undefined ? 4096 : fields.sliding_window,
    slides: (layer) => (layer + 1) % 4 !== 0,
    ropeTheta: 500_000,
    ropeOf: ({ isSliding }, rope) => (isSliding ? local : rope),
  }));
}

const thetaField = z.object({ rope_theta: z.number().positive().nullish() });

const size = z.int().positive();
const expertFields = z.object({
  num_experts: size.nullish(),
  /** The same, in newer files. */
  num_local_experts: size.nullish(),
  num_experts_per_tok: size,
  norm_topk_prob: z.boolean().nullish(),
  /** No release clips its queries, keys and values. */
  clip_qkv: z.null().optional(),
});

function readOlmoe(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, expertFields);
  const config = readDecoderConfig(file, olmoTraits);
  const experts = expectExperts(file.path, {
    count: own.num_experts ?? own.num_local_experts ?? 0,
    intermediateSize: config.intermediateSize,
    routing: {
      topK: own.num_experts_per_tok,
      scores: 'softmax',
      isNormalized: own.norm_topk_prob ?? false,
    },
    layers: config.layerWindows.map(() => true),
  });
  return { ...config, experts };
}

/** Norms behind both blocks and before none. */
export function postNormLayer(attention: LoadBlock): LoadLayer {
  return (context, layer, prefix) =>
    inOrder(
      residual({
        block: attention(context, layer, `${prefix}.self_attn`),
        after: rmsNorm(context, `${prefix}.post_attention_layernorm`),
      }),
      residual({
        block: gatedMlp(context, layer, `${prefix}.mlp`),
        after: rmsNorm(context, `${prefix}.post_feedforward_layernorm`),
      }),
    );
}

/** Queries and keys are normalised over all heads together. */
export function olmoAttention(context: LayerContext, layer: number, prefix: string): Block {
  const { numHeads, numKvHeads } = context.config;
  return attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    queryNorm: normOfAllHeads(context, `${prefix}.q_norm`, numHeads),
    keyNorm: normOfAllHeads(context, `${prefix}.k_norm`, numKvHeads),
    output: outputProjection(context, `${prefix}.o_proj`),
  });
}
