// ModernBERT (Warner et al., 2024): an encoder with rotated positions and gated feed-forwards. Every third layer sees the whole text, the
// others a window on both sides, with a rotation of their own; norms come before the blocks, and nothing but the classifier has a bias.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { type LoadEncoderHead, loadEncoder } from '../encoder.ts';
import { attentionOf, fusedQkv, outputProjection } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { fusedGatedMlp } from '../layers/mlp.ts';
import { layerNormWithoutBias } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { activated, headOf, product } from '../pooling/pooling-head.ts';
import { resolveRope, ropeFields } from '../rope-config.ts';

export const modernBert: Architecture = {
  architectures: ['ModernBertModel', 'ModernBertForMaskedLM', 'ModernBertForSequenceClassification'],
  readConfig,
  load: (context) =>
    loadEncoder(context, { layer, head, hasNormBias: false, finalNorm: layerNormWithoutBias }),
};

const layer: LoadLayer = (context, index, prefix) => {
  const normed = (name: string) => ({ before: layerNormWithoutBias(context, `${prefix}.${name}`) });
  return inOrder(
    // The first sees embeddings that are normalised already.
    residual({
      ...(index > 0 ? normed('attn_norm') : {}),
      block: attention(context, index, `${prefix}.attn`),
    }),
    residual({ ...normed('mlp_norm'), block: mlp(context, index, `${prefix}.mlp`) }),
  );
};

const attention: LoadBlock = (context, index, prefix) =>
  attentionOf(context, index, {
    qkv: fusedQkv(context, `${prefix}.Wqkv`),
    output: outputProjection(context, `${prefix}.Wo`),
  });

const mlp = fusedGatedMlp('Wi', 'Wo');

/** classifier(norm(gelu(dense(row)))) */
const head: LoadEncoderHead = ({ weights, config }) => {
  const { hiddenSize: n } = config;
  const norm = layerNormWithoutBias({ weights, config }, 'head.norm');
  return headOf(
    product(weights.classifier('head.dense', n, n, false)),
    activated('gelu'),
    (ops, x) => norm({ ops }, x, 'f32'),
    product(weights.classifier('classifier', 1, n, true)),
  );
};

const theta = z.number().positive().nullish();
const ownFields = z.looseObject({
  hidden_activation: z.string().nullish(),
  max_position_embeddings: z.int().positive(),
  hidden_size: z.int().positive(),
  num_attention_heads: z.int().positive(),
  norm_eps: z.number().positive().nullish(),
  norm_bias: z.boolean().nullish(),
  attention_bias: z.boolean().nullish(),
  mlp_bias: z.boolean().nullish(),
  global_attn_every_n_layers: z.int().positive().nullish(),
  local_attention: z.int32().positive().nullish(),
  global_rope_theta: theta,
  local_rope_theta: theta,
  /** By the kind of layer. */
  rope_parameters: z
    .object({ full_attention: ropeFields.nullish(), sliding_attention: ropeFields.nullish() })
    .nullish(),
  classifier_pooling: z.enum(['cls', 'mean']).nullish(),
  classifier_bias: z.boolean().nullish(),
  classifier_activation: z.string().nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const { rope_parameters: ropes, ...own } = checkModelJson(file.path, file.json, ownFields);
  if (own.norm_bias || own.classifier_bias || (own.classifier_activation ?? 'gelu') !== 'gelu') {
    throw new ModelLoadError(
      `${file.path}: norm_bias and classifier_bias must be false and classifier_activation gelu: other forms of ` +
        `${file.architecture} are not supported`,
    );
  }
  const { full_attention: far, sliding_attention: near } = ropes ?? {};
  const farTheta = far?.rope_theta ?? own.global_rope_theta ?? 160_000;
  const nearRope = resolveRope({
    path: file.path,
    fields: near ?? {},
    // Null is as in layers that see all.
    theta: near?.rope_theta ?? (own.local_rope_theta === null ? farTheta : (own.local_rope_theta ?? 10_000)),
    maxPositionEmbeddings: own.max_position_embeddings,
    rotaryDim: own.hidden_size / own.num_attention_heads,
  });
  const json = {
    ...own,
    hidden_act: own.hidden_activation ?? 'gelu',
    rope_parameters: { ...far, rope_theta: farTheta },
  };
  const config = readDecoderConfig({ ...file, json }, () => ({
    normEps: own.norm_eps ?? 1e-5,
    qkvBias: own.attention_bias ?? false,
    attentionOutputBias: own.attention_bias ?? false,
    mlpBias: own.mlp_bias ?? false,
    // The published window is that of both sides.
    slidingWindow: Math.floor((own.local_attention ?? 128) / 2) + 1,
    slides: (index) => index % (own.global_attn_every_n_layers ?? 3) !== 0,
    ropeOf: ({ isSliding }, rope) => (isSliding ? nearRope : rope),
    tensorNames: {
      roots: ['model.', ''],
      embedding: 'embeddings.tok_embeddings',
      embeddingNorm: 'embeddings.norm',
      layers: 'layers',
      finalNorm: 'final_norm',
      heads: ['decoder'],
    },
  }));
  const pooledRows = own.classifier_pooling ?? 'cls';
  return { ...config, encoder: { positions: null, numTokenTypes: 0, pooledRows } };
}
