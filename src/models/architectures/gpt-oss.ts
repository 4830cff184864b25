// GPT-OSS: every other layer sees a window of tokens, each head has a sink, and experts with biases, whose gates and inputs are
// clamped, take the place of the MLP. Experts are published as one tensor for all, in MXFP4 or in floats.
// Source: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025, and the release of gpt-oss.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadSinkAttention } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { expertAt, Mixture } from '../layers/mixture.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';
import { withExpertsInEachLayer } from './mixtral.ts';

/** Of both releases. */
const USUAL_ROPE = {
  rope_type: 'yarn',
  factor: 32,
  original_max_position_embeddings: 4096,
  truncate: false,
};

/** What the activation of its experts is clamped to. */
const schema = z.object({ swiglu_limit: z.literal(7).nullish() });

export const gptOss: Architecture = {
  architectures: ['GptOssForCausalLM'],
  readConfig: (file) => {
    const config = readDecoderConfig(file, ({ sliding_window, attention_bias, ...fields }) => ({
      headDim: fields.head_dim ?? 64,
      normEps: fields.rms_norm_eps ?? 1e-5,
      rope: USUAL_ROPE,
      ropeTheta: 150_000,
      slidingWindow: sliding_window ?? 128,
      slides: (layer) => layer % 2 === 0,
      qkvBias: attention_bias ?? true,
      attentionOutputBias: attention_bias ?? true,
    }));
    checkModelJson(file.path, file.json, schema);
    return withExpertsInEachLayer(file, config);
  },
  load: (context) =>
    loadDecoder(context, { layer: preNormLayer({ attention: loadSinkAttention, feedForward }) }),
};

const feedForward: LoadBlock = ({ config, weights }, _layer, prefix) => {
  const { hiddenSize } = config;
  const { count, intermediateSize, routing } = config.experts!;
  const shape = { count, hiddenSize, intermediateSize };
  // Converters take the one tensor apart.
  const isApart = weights.has(`${prefix}.experts.0.gate_proj`);
  const parts = Array.from({ length: count }, (_, index) =>
    isApart
      ? weights.expert(expertAt(`${prefix}.experts.${index}`), hiddenSize, intermediateSize, true)
      : weights.stackedExpert(`${prefix}.experts`, shape, index),
  );
  const experts = weights.mixture(parts, routing, 'clamped_swiglu');
  const router = weights.unquantizedColumn(
    [{ name: `${prefix}.router`, n: count, bias: true, shared: null }],
    hiddenSize,
  );
  return new Mixture(router, experts);
};
