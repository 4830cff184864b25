// Falcon-H1: in each layer a selective scan and attention side by side, and factors on what blocks take and give.
// Source: TII, "Falcon-H1: A Family of Hybrid-Head Language Models Redefining Efficiency and Performance", 2025.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadAttention } from '../layers/attention.ts';
import type { LoadLayer } from '../layers/layer.ts';
import { scaledGateMlp } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { selectiveScanNet } from '../layers/selective-scan-net.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import type { RecurrentConfig } from '../recurrent-config.ts';
import { USUAL_NAMES } from '../tensor-names.ts';

export const falconH1: Architecture = {
  architectures: ['FalconH1ForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer }),
};

const size = z.int().positive();
const factor = z.number().positive().default(1);

const ownFields = z.object({
  embedding_multiplier: factor,
  lm_head_multiplier: factor,
  attention_in_multiplier: factor,
  key_multiplier: factor,
  attention_out_multiplier: factor,
  ssm_in_multiplier: factor,
  ssm_multipliers: z.tuple([factor, factor, factor, factor, factor]).default([1, 1, 1, 1, 1]),
  ssm_out_multiplier: factor,
  mlp_multipliers: z.tuple([factor, factor]).default([1, 1]),
  mamba_n_heads: size.default(128),
  mamba_d_head: z.union([size, z.literal('auto')]).default('auto'),
  mamba_d_ssm: size.nullish(),
  mamba_expand: size.default(2),
  mamba_n_groups: size.default(1),
  mamba_d_state: size.default(256),
  mamba_d_conv: size.default(4),
  mamba_conv_bias: z.boolean().default(true),
  mamba_proj_bias: z.boolean().default(false),
  projectors_bias: z.boolean().default(false),
  mamba_rms_norm: z.boolean().default(false),
  mamba_norm_before_gate: z.boolean().default(true),
});
type OwnFields = z.infer<typeof ownFields>;

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const {
    attention_in_multiplier: taken,
    mlp_multipliers: [gate, feedForward],
  } = own;
  const config = readDecoderConfig(file, ({ rms_norm_eps, mlp_bias }) => ({
    normEps: rms_norm_eps ?? 1e-5,
    activation: 'silu',
    mlpBias: mlp_bias,
    embeddingScale: own.embedding_multiplier,
    logitScale: own.lm_head_multiplier,
    tensorNames: { ...USUAL_NAMES, finalNorm: 'final_layernorm' },
  }));
  refuseOthers(file);
  // A factor on what attention takes is one on queries, keys and values: products with both, and with the sum, have it.
  const onScores = taken * taken * own.key_multiplier;
  return {
    ...config,
    attentionScales: config.attentionScales.map((scale) => scale * onScores),
    blockFactors: {
      attention: taken * own.attention_out_multiplier,
      scan: own.ssm_out_multiplier,
      gate,
      feedForward,
    },
    recurrent: scanOf(config, own),
  };
}

const otherForms = z.object({
  attention_bias: z.boolean().nullish(),
  hidden_act: z.string().default('silu'),
});

/** Factors are applied where there are no biases, and releases have none. */
function refuseOthers({ path, json }: ConfigFile): void {
  const { attention_bias, hidden_act } = checkModelJson(path, json, otherForms);
  const own = checkModelJson(path, json, ownFields);
  const isOther =
    attention_bias ||
    own.mamba_proj_bias ||
    own.projectors_bias ||
    (own.mamba_rms_norm && own.mamba_norm_before_gate);
  if (!isOther && hidden_act === 'silu') return;
  throw new ModelLoadError(
    `${path}: other forms of FalconH1ForCausalLM are not supported: attention_bias, mamba_proj_bias and projectors_bias must be ` +
      'false, hidden_act silu, and mamba_norm_before_gate false where mamba_rms_norm is true',
  );
}

function scanOf({ layerWindows, hiddenSize }: ModelConfig, own: OwnFields): RecurrentConfig {
  const { mamba_n_heads: heads, mamba_d_head: headDim, ssm_in_multiplier: taken } = own;
  const [gates, x, b, c, steps] = own.ssm_multipliers;
  const width = own.mamba_d_ssm ?? own.mamba_expand * hiddenSize;
  return {
    layers: layerWindows.map(() => true),
    isBesideAttention: true,
    taps: own.mamba_d_conv,
    hasBias: own.mamba_conv_bias,
    scan: {
      groups: own.mamba_n_groups,
      stateDim: own.mamba_d_state,
      heads,
      headDim: headDim === 'auto' ? width / heads : headDim,
      normGroups: own.mamba_rms_norm ? own.mamba_n_groups : null,
      factors: [taken * gates, taken * x, taken * b, taken * c, taken * steps],
      hasProjectionBias: false,
    },
  };
}

const layer: LoadLayer = (context, index, prefix) => {
  const factors = context.config.blockFactors!;
  const before = rmsNorm(context, `${prefix}.input_layernorm`);
  const scan = selectiveScanNet(context, index, `${prefix}.mamba`);
  const attention = loadAttention(context, index, `${prefix}.self_attn`);
  return inOrder(
    (x, step) => {
      const h = before(step, x, scan.inputDType);
      step.ops.addScaled(x, scan.apply(step, h), factors.scan);
      step.ops.addScaled(x, attention.apply(step, h), factors.attention);
    },
    residual({
      before: rmsNorm(context, `${prefix}.pre_ff_layernorm`),
      block: scaledGateMlp(factors.gate)(context, index, `${prefix}.feed_forward`),
      scale: factors.feedForward,
    }),
  );
};
