// Granite with experts, all of them in one tensor, and in some beside an MLP for every token. Granite 4 has no experts in its small
// releases, only that MLP, and in most of its layers a selective scan in the place of attention (IBM, 2024 and 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import { loadAttention } from '../layers/attention.ts';
import type { Block, LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import { loadMixture, SharedExpert } from '../layers/mixture.ts';
import { fusedGatedMlp, gatedMlp } from '../layers/mlp.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { selectiveScanNet } from '../layers/selective-scan-net.ts';
import type { ConfigFile, ModelConfig } from '../model-config.ts';
import type { RecurrentConfig } from '../recurrent-config.ts';
import { readLayerTypes } from '../recurrent-layers.ts';
import { readGranite } from './granite.ts';

/** Of the feed-forward of a layer. */
export const MIXTURE_NAME = 'block_sparse_moe';

const HYBRID = 'GraniteMoeHybridForCausalLM';

export const graniteMoe: Architecture = {
  architectures: ['GraniteMoeForCausalLM', 'GraniteMoeSharedForCausalLM', HYBRID],
  readConfig,
  load: (context) => loadDecoder(context, { layer }),
};

const ownFields = z.looseObject({
  num_local_experts: z.int().nonnegative().nullish(),
  num_experts_per_tok: z.int().nonnegative().nullish(),
  shared_intermediate_size: z.int().nonnegative().nullish(),
  position_embedding_type: z.string().nullish(),
});

/** In released files, and in those that transformers 5 writes. */
const TYPES = { state: ['mamba', 'linear_attention'], attention: ['attention', 'full_attention'] };

function readConfig(file: ConfigFile): ModelConfig {
  const { path } = file;
  const own = checkModelJson(path, file.json, ownFields);
  // Of the releases with either kind of layer, only those rotate that say so.
  const rotates = file.architecture !== HYBRID || own.position_embedding_type === 'rope';
  const { layers, rest } = readLayerTypes(file, TYPES, () => false);
  const rotating = readGranite(rest);
  const attending = rotates ? rotating : { ...rotating, layerRopes: rotating.layerRopes.map(() => null) };
  const recurrent = layers.includes(true) ? readScan(file, layers, rotating) : null;
  return withGraniteExperts(file, { ...attending, recurrent });
}

/** `config` with experts, and an MLP for every token, where config.json has any. */
export function withGraniteExperts({ path, json }: ConfigFile, config: ModelConfig): ModelConfig {
  const own = checkModelJson(path, json, ownFields);
  const count = own.num_local_experts ?? 8;
  const sharedIntermediateSize = own.shared_intermediate_size ?? 0;
  if (count === 0) return { ...config, intermediateSize: sharedIntermediateSize };
  const experts = expectExperts(path, {
    count,
    intermediateSize: config.intermediateSize,
    routing: { topK: own.num_experts_per_tok ?? 2, scores: 'softmax', isNormalized: true },
    sharedIntermediateSize,
    layers: config.layerWindows.map(() => true),
  });
  return { ...config, experts };
}

const size = z.int().positive();
const scanFields = z.object({
  mamba_n_heads: size.default(128),
  mamba_n_groups: size.default(1),
  mamba_d_state: size.default(256),
  mamba_d_head: z.union([size, z.literal('auto')]).default('auto'),
  mamba_d_conv: size.default(4),
  mamba_expand: size.default(2),
  mamba_conv_bias: z.boolean().default(true),
  mamba_proj_bias: z.boolean().default(false),
});

function readScan(
  { path, json }: ConfigFile,
  layers: readonly boolean[],
  { hiddenSize }: ModelConfig,
): RecurrentConfig {
  const fields = checkModelJson(path, json, scanFields);
  const { mamba_n_heads: heads, mamba_d_head: headDim } = fields;
  return {
    layers,
    taps: fields.mamba_d_conv,
    hasBias: fields.mamba_conv_bias,
    scan: {
      groups: fields.mamba_n_groups,
      stateDim: fields.mamba_d_state,
      heads,
      headDim: headDim === 'auto' ? (fields.mamba_expand * hiddenSize) / heads : headDim,
      normGroups: 1,
      hasProjectionBias: fields.mamba_proj_bias,
    },
  };
}

/** Where a layer has no attention, its scan has another name. */
const mixer: LoadBlock = (context, index, prefix) =>
  context.config.recurrent?.layers[index]
    ? selectiveScanNet(context, index, prefix.replace(/self_attn$/, 'mamba'))
    : loadAttention(context, index, prefix);

const layer: LoadLayer = preNormLayer({
  attention: mixer,
  feedForwardName: MIXTURE_NAME,
  feedForward: graniteMixture,
});

/** Experts, where there are any, beside the MLP for every token, where there is one: its name is beside that of theirs. */
export function graniteMixture(context: LayerContext, index: number, prefix: string): Block {
  const { experts } = context.config;
  const shared = () => sharedMlp(context, index, prefix.replace(MIXTURE_NAME, 'shared_mlp'));
  if (experts === null) return shared();
  const chosen = loadMixture(context, prefix, namesOf(context, prefix));
  return experts.sharedIntermediateSize ? new SharedExpert(chosen, shared()) : chosen;
}

/** As releases name them, or as transformers 5 keeps them. */
function namesOf({ weights }: LayerContext, prefix: string): Parameters<typeof loadMixture>[2] {
  if (weights.has(`${prefix}.router`)) return { router: `${prefix}.router` };
  return {
    router: `${prefix}.router.layer`,
    fused: { gateUp: `${prefix}.input_linear.weight`, down: `${prefix}.output_linear.weight` },
  };
}

/** The MLP for every token, gate and up in one tensor, which converters take apart. */
function sharedMlp(context: LayerContext, index: number, prefix: string): Block {
  const { config, weights } = context;
  const intermediateSize = config.experts?.sharedIntermediateSize ?? config.intermediateSize;
  const load = weights.has(`${prefix}.gate_proj`) ? gatedMlp : fusedGatedMlp('input_linear', 'output_linear');
  return load({ ...context, config: { ...config, intermediateSize } }, index, prefix);
}
