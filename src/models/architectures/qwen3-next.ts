// Qwen3-Next: three layers of linear attention by the gated delta rule to one of attention, whose heads have gates; norms around 1,
// and experts beside one for every token.
// Source: Qwen Team, "Qwen3-Next: Towards Ultimate Training & Inference Efficiency", 2025.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { gatedAttention } from '../layers/gated-attention.ts';
import { type DeltaProjections, gatedDeltaNet } from '../layers/gated-delta-net.ts';
import type { LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import type { ColumnParallelLinears } from '../layers/linear.ts';
import { expertsOrMlp } from '../layers/mixture.ts';
import { rmsNormAround1 } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { readLayerTypes } from '../recurrent-layers.ts';
import type { Projection } from '../weights/weight-reader.ts';
import { readQwenExperts, withShared } from './qwen2-moe.ts';

export const qwen3Next: Architecture = {
  architectures: ['Qwen3NextForCausalLM'],
  readConfig: (file) => withSharedExperts(file, readHybrid(file)),
  load: (context) =>
    loadDecoder(context, { layer: hybridLayer(headwise, expertsOrMlp(withShared)), norm: rmsNormAround1 }),
};

const size = z.int().positive();

const linearFields = z.object({
  linear_conv_kernel_dim: size.default(4),
  linear_key_head_dim: size.default(128),
  linear_value_head_dim: size.default(128),
  linear_num_key_heads: size.default(16),
  linear_num_value_heads: size.default(32),
  /** Of GGUF files alone. */
  linear_value_heads_tiled: z.boolean().default(false),
  full_attention_interval: size.default(4),
  mtp_num_hidden_layers: z.int().nonnegative().nullish(),
});

/** All but the experts. */
export function readHybrid(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, linearFields);
  const { layers, rest } = readLayerTypes(
    file,
    { state: ['linear_attention'], attention: ['full_attention'] },
    (layer) => (layer + 1) % own.full_attention_interval !== 0,
  );
  const config = readDecoderConfig(rest, (fields) => ({
    headDim: fields.head_dim ?? 256,
    rotaryFactor: 0.25,
    qkvBias: fields.attention_bias,
    attentionOutputBias: fields.attention_bias,
  }));
  const delta = {
    keyHeads: own.linear_num_key_heads,
    keyDim: own.linear_key_head_dim,
    heads: own.linear_num_value_heads,
    valueDim: own.linear_value_head_dim,
    isTiled: own.linear_value_heads_tiled && own.linear_num_value_heads !== own.linear_num_key_heads,
  };
  return {
    ...config,
    recurrent: { layers, taps: own.linear_conv_kernel_dim, hasBias: false, delta },
    numDraftLayers: own.mtp_num_hidden_layers ?? 0,
  };
}

const sharedFields = z.object({ shared_expert_intermediate_size: size.default(512) });

/** Weights of the chosen experts are brought to a sum of 1, unless the file says otherwise. */
export function withSharedExperts(file: ConfigFile, config: ModelConfig): ModelConfig {
  const shared = checkModelJson(file.path, file.json, sharedFields);
  const usual = z.looseObject({ norm_topk_prob: z.boolean().default(true) });
  const experts = readQwenExperts({ ...file, json: checkModelJson(file.path, file.json, usual) }, config);
  return {
    ...config,
    experts: { ...experts, sharedIntermediateSize: shared.shared_expert_intermediate_size },
  };
}

/** @param prefix of the names of its tensors. */
type LoadProjections = (context: LayerContext, prefix: string) => DeltaProjections;

/** Linear attention in the layers that keep states, attention in the others. */
export function hybridLayer(projections: LoadProjections, feedForward: LoadBlock): LoadLayer {
  const linear: LoadBlock = (context, layer, prefix) =>
    gatedDeltaNet(context, layer, prefix, projections(context, prefix));
  return (context, layer, prefix) =>
    inOrder(
      residual({
        before: rmsNormAround1(context, `${prefix}.input_layernorm`),
        block: context.config.recurrent!.layers[layer]
          ? linear(context, layer, `${prefix}.linear_attn`)
          : gatedAttention(context, layer, `${prefix}.self_attn`),
      }),
      residual({
        before: rmsNormAround1(context, `${prefix}.post_attention_layernorm`),
        block: feedForward(context, layer, `${prefix}.mlp`),
      }),
    );
}

/** Queries, keys and values of all heads in one tensor, and their gates in another. */
export function valuesOfAllHeads({ config, weights }: LayerContext, prefix: string): ColumnParallelLinears {
  const { keyHeads, keyDim, heads, valueDim } = config.recurrent!.delta!;
  const [keys, values] = [keyHeads * keyDim, heads * valueDim];
  return weights.columns(
    [
      { name: `${prefix}.in_proj_qkv`, n: 2 * keys + values, shared: [keys, keys, values] },
      { name: `${prefix}.in_proj_z`, n: values },
    ],
    config.hiddenSize,
  );
}

/**
 * Of each head of keys, one after the other: query, key, values and their gates; and of its heads of values writing, then forgetting.
 * Converters take apart what is of the first kind.
 */
const headwise: LoadProjections = (context, prefix) => {
  const { config, weights } = context;
  const { keyHeads, keyDim, heads, valueDim } = config.recurrent!.delta!;
  const { hiddenSize } = config;
  const each = heads / keyHeads;
  const own = weights.share.of(keyHeads);
  /** Of each head of keys, `widths` of rows; those of kind 0 of all of them, then those of kind 1, and so on. */
  const kinds = (name: string, widths: readonly number[]): Projection[] => {
    const ofHead = widths.reduce((sum, width) => sum + width, 0);
    return widths.flatMap((n, kind) => {
      const before = widths.slice(0, kind).reduce((sum, width) => sum + width, 0);
      return Array.from({ length: own.count }, (_, head) => ({
        name: `${prefix}.${name}`,
        n,
        within: { rows: keyHeads * ofHead, first: (own.first + head) * ofHead + before },
        shared: null,
      }));
    });
  };
  const values = each * valueDim;
  return {
    values: weights.has(`${prefix}.in_proj_qkvz`)
      ? weights.columns(kinds('in_proj_qkvz', [keyDim, keyDim, values, values]), hiddenSize)
      : valuesOfAllHeads(context, prefix),
    gates: weights.unquantizedColumn(kinds('in_proj_ba', [each, each]), hiddenSize),
  };
};
