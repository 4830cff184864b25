// Models with selective scans, as GGUF names them: in the place of attention in most layers, in layers of their own, or beside attention.

import { type GgufArchitecture, MODEL_MODULES } from './gguf-architecture.ts';
import type { GgufKeys } from './gguf-keys.ts';
import { GRANITE_EXPERTS, graniteExperts, groupedExperts, layersOf } from './gguf-mixtures.ts';

const graniteHybrid: GgufArchitecture = {
  name: () => 'GraniteMoeHybridForCausalLM',
  fields: graniteHybridFields,
  modules: {
    ...GRANITE_EXPERTS,
    // Without experts the MLP for every token is a plain one.
    ffn_gate: 'shared_mlp.gate_proj',
    ffn_up: 'shared_mlp.up_proj',
    ffn_down: 'shared_mlp.down_proj',
    ...scanModules('mamba'),
  },
  hasPairedHeads: true,
};

function scanModules(prefix: string): Readonly<Record<string, string>> {
  return {
    ssm_in: `${prefix}.in_proj`,
    ssm_conv1d: `${prefix}.conv1d`,
    ssm_a: `${prefix}.rates`,
    'ssm_dt.bias': `${prefix}.dt_bias`,
    ssm_d: `${prefix}.D`,
    ssm_norm: `${prefix}.norm`,
    ssm_out: `${prefix}.out_proj`,
  };
}

function graniteHybridFields(keys: GgufKeys): Readonly<Record<string, unknown>> {
  const attends = keys.ofLayers('attention.head_count_kv')?.map((heads) => heads > 0) ?? [];
  const attention = `blk.${attends.indexOf(true)}`;
  const experts = graniteExperts(keys);
  return {
    ...experts,
    // Bamba, which is converted under the same name, has none.
    attention_multiplier: keys.need('attention.scale'),
    ...(experts.num_local_experts
      ? {}
      : { num_local_experts: 0, shared_intermediate_size: keys.need('feed_forward_length') }),
    layer_types: attends.map((does) => (does ? 'attention' : 'mamba')),
    // The key says no more than this there.
    position_embedding_type: keys.flag('granitehybrid.rope.scaling.finetuned') === false ? 'nope' : 'rope',
    attention_bias: keys.hasTensor(`${attention}.attn_q.bias`),
    ...mambaFields(keys, attends.indexOf(false)),
  };
}

/** @param layer that has a scan */
function mambaFields(keys: GgufKeys, layer: number): Readonly<Record<string, unknown>> {
  const heads = keys.need('ssm.time_step_rank');
  return {
    mamba_n_heads: heads,
    mamba_d_head: keys.need('ssm.inner_size') / heads,
    mamba_n_groups: keys.need('ssm.group_count'),
    mamba_d_state: keys.need('ssm.state_size'),
    mamba_d_conv: keys.need('ssm.conv_kernel'),
    mamba_conv_bias: keys.hasTensor(`blk.${layer}.ssm_conv1d.bias`),
    mamba_proj_bias: keys.hasTensor(`blk.${layer}.ssm_in.bias`),
  };
}

/** Converted so that weights have the factors, which there are none of then. */
const falconH1: GgufArchitecture = {
  name: () => 'FalconH1ForCausalLM',
  fields: (keys) => ({
    ...mambaFields(keys, 0),
    mamba_rms_norm: keys.hasTensor('blk.0.ssm_norm.weight'),
    mamba_norm_before_gate: false,
  }),
  modules: {
    ...scanModules('mamba'),
    // Converters leave the end of its name out.
    ffn_norm: 'pre_ff_layernorm.weight',
    'ffn_norm.weight': 'pre_ff_layernorm.weight',
    ffn_gate: 'feed_forward.gate_proj',
    ffn_up: 'feed_forward.up_proj',
    ffn_down: 'feed_forward.down_proj',
  },
  modelModules: { ...MODEL_MODULES, output_norm: 'model.final_layernorm' },
};

const nemotronH: GgufArchitecture = {
  name: () => 'NemotronHForCausalLM',
  fields: nemotronHFields,
  modules: {
    attn_norm: 'norm',
    attn_q: 'mixer.q_proj',
    attn_k: 'mixer.k_proj',
    attn_v: 'mixer.v_proj',
    attn_output: 'mixer.o_proj',
    ffn_up: 'mixer.up_proj',
    ffn_down: 'mixer.down_proj',
    ffn_gate_inp: 'mixer.gate',
    ffn_up_exps: 'mixer.experts.*.up_proj',
    ffn_down_exps: 'mixer.experts.*.down_proj',
    'exp_probs_b.bias': 'mixer.gate.e_score_correction_bias',
    ffn_up_shexp: 'mixer.shared_experts.up_proj',
    ffn_down_shexp: 'mixer.shared_experts.down_proj',
    ffn_latent_down: 'mixer.fc1_latent_proj',
    ffn_latent_up: 'mixer.fc2_latent_proj',
    ...scanModules('mixer'),
  },
  layers: 'backbone.layers',
  modelModules: { token_embd: 'backbone.embeddings', output_norm: 'backbone.norm_f', output: 'lm_head' },
};

/** Of what each layer is made only its tensors say: a width may be that of an MLP or of experts. */
const NEMOTRON_LAYERS = {
  mamba: 'ssm_in',
  attention: 'attn_q',
  moe: 'ffn_gate_inp',
  mlp: 'ffn_up',
} as const;

function nemotronHFields(keys: GgufKeys): Readonly<Record<string, unknown>> {
  const kinds = layersOf(keys).map((layer) => {
    const tensors = Object.entries(NEMOTRON_LAYERS);
    return tensors.find(([, module]) => keys.hasTensor(`blk.${layer}.${module}.weight`))?.[0] ?? 'none';
  });
  const hasBias = (kind: keyof typeof NEMOTRON_LAYERS, module: string = NEMOTRON_LAYERS[kind]): boolean =>
    keys.hasTensor(`blk.${kinds.indexOf(kind)}.${module}.bias`);
  const heads = keys.need('ssm.time_step_rank');
  const mlpWidth = keys.shapeOf(`blk.${kinds.indexOf('mlp')}.ffn_up.weight`)?.[0];
  return {
    ...groupedExperts(keys),
    layers_block_type: kinds,
    layer_norm_epsilon: keys.ofModel('attention.layer_norm_rms_epsilon') ?? undefined,
    intermediate_size: mlpWidth ?? keys.need('expert_feed_forward_length'),
    moe_shared_expert_intermediate_size: keys.ofModel('expert_shared_feed_forward_length'),
    moe_latent_size: keys.ofModel('moe_latent_size'),
    num_nextn_predict_layers: keys.ofModel('nextn_predict_layers'),
    attention_bias: hasBias('attention'),
    mlp_bias: hasBias('mlp') || hasBias('moe', 'ffn_up_shexp'),
    mamba_num_heads: heads,
    mamba_head_dim: keys.need('ssm.inner_size') / heads,
    n_groups: keys.need('ssm.group_count'),
    ssm_state_size: keys.need('ssm.state_size'),
    conv_kernel: keys.need('ssm.conv_kernel'),
    use_conv_bias: hasBias('mamba', 'ssm_conv1d'),
    use_bias: hasBias('mamba'),
  };
}

/** By `general.architecture`. */
export const GGUF_SCANS: Readonly<Record<string, GgufArchitecture>> = {
  granitehybrid: graniteHybrid,
  'falcon-h1': falconH1,
  nemotron_h: nemotronH,
  nemotron_h_moe: nemotronH,
};
