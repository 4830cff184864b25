// Apertus: as Llama, with heads of queries and keys normalised, and a feed-forward without a gate, whose activation each layer has learned
// for itself (Swiss AI, "Apertus: Democratizing Open and Compliant LLMs for Global Language Environments", 2025).

import * as z from 'zod';
import type { Xielu } from '../../ops/activation.ts';
import { softplus } from '../../ops/softplus.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadAttention } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { rmsNorm } from '../layers/norm.ts';
import { productBlock } from '../layers/product-block.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { readDecoderConfig } from '../model-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';

const ownFields = z.object({ hidden_act: z.literal('xielu').nullish() });

/** Where config.json does not say. */
const ROPE = {
  rope_type: 'llama3',
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 8192,
} as const;

export const apertus: Architecture = {
  architectures: ['ApertusForCausalLM'],
  readConfig: (file) => {
    checkModelJson(file.path, file.json, ownFields);
    return readDecoderConfig(file, ({ rms_norm_eps, attention_bias }) => ({
      normEps: rms_norm_eps ?? 1e-5,
      // Not that of the feed-forwards, which have their own.
      activation: 'silu',
      rope: ROPE,
      ropeTheta: 12_000_000,
      hasHeadNorms: true,
      qkvBias: attention_bias,
      attentionOutputBias: attention_bias,
    }));
  },
  load: (context) => loadDecoder(context, { layer }),
};

const layer: LoadLayer = (context, index, prefix) =>
  inOrder(
    residual({
      before: rmsNorm(context, `${prefix}.attention_layernorm`),
      block: loadAttention(context, index, `${prefix}.self_attn`),
    }),
    residual({
      before: rmsNorm(context, `${prefix}.feedforward_layernorm`),
      block: feedForward(context, index, `${prefix}.mlp`),
    }),
  );

/** down(xielu(up(h))) */
const feedForward: LoadBlock = ({ config, weights }, _layer, prefix) => {
  const { hiddenSize, intermediateSize } = config;
  const up = weights.column({ name: `${prefix}.up_proj`, n: intermediateSize }, hiddenSize);
  const output = weights.row({ name: `${prefix}.down_proj`, n: hiddenSize }, intermediateSize);
  const factors = xieluOf(weights, `${prefix}.act_fn`);
  return productBlock({
    inputDType: up.inputDType,
    inner: (step, h) => step.ops.xielu(up.apply(step, h), factors, output.inputDType),
    output,
  });
};

/** What is learned is published as numbers of any sign. */
function xieluOf(weights: WeightReader, name: string): Xielu {
  const linear = weights.number(`${name}.beta`);
  return {
    positive: softplus(weights.number(`${name}.alpha_p`)),
    negative: linear + softplus(weights.number(`${name}.alpha_n`)),
    linear,
    least: weights.number(`${name}.eps`),
  };
}
