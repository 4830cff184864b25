// Nemotron-H and Nemotron Nano: each layer is one block, a selective scan, attention without positions, an MLP, or experts; no MLP has a gate.
// Sources: NVIDIA, "Nemotron-H: A Family of Accurate and Efficient Hybrid Mamba-Transformer Models", 2025; "Nemotron 3 Nano", 2025.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import { preview } from '../../util/preview.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadAttention } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { LatentMixture, loadMixture, SharedExpert } from '../layers/mixture.ts';
import { plainMlp } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { residual } from '../layers/residual.ts';
import { selectiveScanNet } from '../layers/selective-scan-net.ts';
import { type ConfigFile, MAX_LAYERS, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import type { RecurrentConfig } from '../recurrent-config.ts';
import { readGroupedExperts } from './deepseek-experts.ts';

export const nemotronH: Architecture = {
  architectures: ['NemotronHForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer }),
};

type Kind = 'scan' | 'attention' | 'mlp' | 'experts';

/** By their letters in `hybrid_override_pattern`, and by their names in lists. */
const KINDS: Readonly<Record<string, Kind>> = {
  M: 'scan',
  mamba: 'scan',
  linear_attention: 'scan',
  '*': 'attention',
  attention: 'attention',
  full_attention: 'attention',
  '-': 'mlp',
  mlp: 'mlp',
  E: 'experts',
  moe: 'experts',
};

const size = z.int().positive();
const names = z.array(z.string()).min(1).max(MAX_LAYERS).nullish();

const ownFields = z.looseObject({
  hybrid_override_pattern: z.string().min(1).max(MAX_LAYERS).nullish(),
  layers_block_type: names,
  layer_types: names,
  /** Older files call it so. */
  attention_head_dim: size.nullish(),
  layer_norm_epsilon: z.number().positive().nullish(),
  mlp_hidden_act: z.string().default('relu2'),
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const { hybrid_override_pattern: pattern, layers_block_type, layer_types, ...json } = own;
  const kinds = readKinds(file.path, layers_block_type ?? layer_types ?? [...(pattern ?? '')]);
  const rest = { ...file, json: { ...json, num_hidden_layers: kinds.length } };
  const config = readDecoderConfig(rest, ({ attention_bias, mlp_bias, head_dim, rms_norm_eps }) => ({
    normEps: own.layer_norm_epsilon ?? rms_norm_eps ?? 1e-5,
    activation: own.mlp_hidden_act,
    headDim: head_dim ?? own.attention_head_dim ?? 128,
    qkvBias: attention_bias,
    attentionOutputBias: attention_bias,
    mlpBias: mlp_bias,
    ropeOf: () => null,
    tensorNames: {
      roots: ['backbone.', 'model.'],
      embedding: 'embeddings',
      layers: 'layers',
      finalNorm: 'norm_f',
      heads: ['lm_head'],
    },
  }));
  const layersOf = (kind: Kind): boolean[] => kinds.map((one) => one === kind);
  return {
    ...config,
    recurrent: kinds.includes('scan') ? readScan(file, layersOf('scan')) : null,
    feedForwards: kinds.map((kind) => kind === 'mlp' || kind === 'experts'),
    ...(kinds.includes('experts') && readExperts(file, config, layersOf('experts'))),
  };
}

function readKinds(path: string, published: readonly string[]): Kind[] {
  const kinds = published.map((name) => {
    if (Object.hasOwn(KINDS, name)) return KINDS[name]!;
    const known = Object.keys(KINDS).join(' ');
    throw new ModelLoadError(
      `${path}: hybrid_override_pattern and layers_block_type must be of ${known}, got ${preview(name)}`,
    );
  });
  if (!kinds.includes('attention'))
    throw new ModelLoadError(
      `${path}: hybrid_override_pattern or layers_block_type must name a layer of attention, got none`,
    );
  return kinds;
}

const scanFields = z.object({
  mamba_num_heads: size.default(128),
  mamba_head_dim: size.default(64),
  n_groups: size.default(8),
  ssm_state_size: size.default(128),
  conv_kernel: size.default(4),
  use_conv_bias: z.boolean().default(true),
  use_bias: z.boolean().default(false),
});

/** Time steps have no least, as where the models were trained; transformers bounds those of prompts, and not those of answers. */
function readScan({ path, json }: ConfigFile, layers: readonly boolean[]): RecurrentConfig {
  const fields = checkModelJson(path, json, scanFields);
  return {
    layers,
    taps: fields.conv_kernel,
    hasBias: fields.use_conv_bias,
    scan: {
      groups: fields.n_groups,
      stateDim: fields.ssm_state_size,
      heads: fields.mamba_num_heads,
      headDim: fields.mamba_head_dim,
      normGroups: fields.n_groups,
      hasProjectionBias: fields.use_bias,
    },
  };
}

const expertFields = z.object({
  moe_shared_expert_intermediate_size: size,
  moe_latent_size: size.nullish(),
});

function readExperts(
  file: ConfigFile,
  config: ModelConfig,
  layers: readonly boolean[],
): Pick<ModelConfig, 'experts' | 'numDraftLayers'> {
  const fields = checkModelJson(file.path, file.json, expertFields);
  const { experts, numDraftLayers } = readGroupedExperts(file, config);
  if (experts === null)
    throw new ModelLoadError(`${file.path}: n_routed_experts must be the number of experts of a layer`);
  return {
    experts: {
      ...experts,
      layers,
      latentSize: fields.moe_latent_size ?? null,
      sharedIntermediateSize: fields.moe_shared_expert_intermediate_size,
    },
    numDraftLayers,
  };
}

const layer: LoadLayer = (context, index, prefix) =>
  residual({
    before: rmsNorm(context, `${prefix}.norm`),
    block: blockOf(context.config, index)(context, index, `${prefix}.mixer`),
  });

function blockOf({ recurrent, experts, feedForwards }: ModelConfig, index: number): LoadBlock {
  if (recurrent?.layers[index]) return selectiveScanNet;
  if (experts?.layers[index]) return mixture;
  return feedForwards![index] ? mlp : loadAttention;
}

const mlp = plainMlp({ up: 'up_proj', down: 'down_proj' });

/** Experts, which may see a token through a narrower latent, beside one that sees all of it. */
const mixture: LoadBlock = (context, index, prefix) => {
  const { config, weights } = context;
  const { count, latentSize, sharedIntermediateSize } = config.experts!;
  const chosen = loadMixture(context, prefix, {
    names: { gate: null, up: 'up_proj', down: 'down_proj' },
    width: latentSize ?? config.hiddenSize,
    bias: weights.vector(`${prefix}.gate.e_score_correction_bias`, count),
  });
  const shared = mlp(
    { ...context, config: { ...config, intermediateSize: sharedIntermediateSize! } },
    index,
    `${prefix}.shared_experts`,
  );
  if (!latentSize) return new SharedExpert(chosen, shared);
  const { hiddenSize, mlpBias: bias } = config;
  const whole = (name: string, n: number, k: number) =>
    weights.column({ name: `${prefix}.${name}`, n, bias, shared: null }, k);
  const narrowed = whole('fc1_latent_proj', latentSize, hiddenSize);
  const widened = whole('fc2_latent_proj', hiddenSize, latentSize);
  return new SharedExpert(new LatentMixture(narrowed, chosen, widened), shared);
};
