// GTE (Zhang et al., 2024: mGTE): BERT with rotated positions and gated feed-forwards, published as code of its own under the name New.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadEncoder } from '../encoder.ts';
import { attentionOf, fusedQkv, outputProjection } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { gated } from '../layers/mlp.ts';
import { postNormLayer } from '../layers/post-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { bertHead } from './bert.ts';

export const gte: Architecture = {
  architectures: [
    'NewModel',
    'NewForMaskedLM',
    'NewForSequenceClassification',
    'GteModel',
    'GteForMaskedLM',
    'GteForSequenceClassification',
  ],
  readConfig,
  load: (context) => loadEncoder(context, { layer, head: bertHead }),
};

const attention: LoadBlock = (context, index, prefix) =>
  attentionOf(context, index, {
    qkv: fusedQkv(context, `${prefix}.qkv_proj`),
    output: outputProjection(context, `${prefix}.o_proj`),
  });

/** What opens the gates is the second half, and what comes out alone has a bias. */
const mlp: LoadBlock = ({ config, weights }, _index, prefix) => {
  const { hiddenSize, intermediateSize: n, activation } = config;
  const half = (first: number) => ({
    name: `${prefix}.up_gate_proj`,
    n,
    bias: false,
    within: { rows: 2 * n, first },
  });
  return gated(
    weights.gateUp(half(n), half(0), hiddenSize, activation),
    weights.row({ name: `${prefix}.down_proj`, n: hiddenSize, bias: true }, n),
  );
};

const layer = postNormLayer(
  { load: attention, name: 'attention', norm: 'attn_ln' },
  { load: mlp, name: 'mlp', norm: 'mlp_ln' },
);

/** The form of all published models. */
const ownFields = z.looseObject({
  position_embedding_type: z.literal('rope').nullish(),
  layer_norm_type: z.literal('layer_norm').nullish(),
  logn_attention_scale: z.literal(false).nullish(),
  pack_qkv: z.literal(true).nullish(),
  layer_norm_eps: z.number().positive().nullish(),
  hidden_act: z.string().nullish(),
  type_vocab_size: z.int().nonnegative().nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const isNew = file.architecture.startsWith('New');
  const config = readDecoderConfig(file, () => ({
    normEps: own.layer_norm_eps ?? 1e-12,
    activation: own.hidden_act ?? 'gelu',
    ropeTheta: isNew ? 10_000 : 160_000,
    qkvBias: true,
    attentionOutputBias: true,
    tensorNames: {
      roots: ['new.', 'gte.', ''],
      embedding: 'embeddings.word_embeddings',
      embeddingNorm: 'embeddings.LayerNorm',
      layers: 'encoder.layer',
      heads: ['classifier'],
    },
  }));
  const numTokenTypes = own.type_vocab_size ?? 1;
  return { ...config, encoder: { positions: null, numTokenTypes, pooledRows: 'cls' } };
}
