// DistilBERT (Sanh et al., 2019): BERT with half as many layers and without kinds of texts, under names of its own.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { type LoadEncoderHead, loadEncoder } from '../encoder.ts';
import { attentionOf } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { postNormLayer } from '../layers/post-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { activated, headOf, product } from '../pooling/pooling-head.ts';

export const distilbert: Architecture = {
  architectures: ['DistilBertModel', 'DistilBertForMaskedLM', 'DistilBertForSequenceClassification'],
  readConfig,
  load: (context) => loadEncoder(context, { layer, head }),
};

const attention: LoadBlock = (context, index, prefix) => {
  const { hiddenSize: n } = context.config;
  const part = (name: string) => ({ name: `${prefix}.${name}`, n, bias: true });
  return attentionOf(context, index, {
    qkv: context.weights.columns([part('q_lin'), part('k_lin'), part('v_lin')], n),
    output: context.weights.row(part('out_lin'), n),
  });
};

const layer = postNormLayer(
  { load: attention, name: 'attention', norm: 'sa_layer_norm' },
  { load: plainMlp({ up: 'ffn.lin1', down: 'ffn.lin2' }), norm: 'output_layer_norm' },
);

/** classifier(relu(dense(row))) */
const head: LoadEncoderHead = ({ weights, config }) => {
  const { hiddenSize: n } = config;
  return headOf(
    product(weights.classifier('pre_classifier', n, n, true)),
    activated('relu'),
    product(weights.classifier('classifier', 1, n, true)),
  );
};

const size = z.int().positive();
const ownFields = z.looseObject({
  dim: size,
  hidden_dim: size,
  n_layers: size,
  n_heads: size,
  activation: z.string().nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const json = {
    ...own,
    hidden_size: own.dim,
    intermediate_size: own.hidden_dim,
    num_hidden_layers: own.n_layers,
    num_attention_heads: own.n_heads,
    hidden_act: own.activation ?? 'gelu',
  };
  const config = readDecoderConfig({ ...file, json }, () => ({
    normEps: 1e-12,
    qkvBias: true,
    attentionOutputBias: true,
    mlpBias: true,
    ropeOf: () => null,
    tensorNames: {
      roots: ['distilbert.', ''],
      embedding: 'embeddings.word_embeddings',
      positions: 'embeddings.position_embeddings',
      layers: 'transformer.layer',
      embeddingNorm: 'embeddings.LayerNorm',
      heads: ['vocab_projector'],
    },
  }));
  const positions = { count: config.maxPositionEmbeddings, offset: 0 };
  return { ...config, encoder: { positions, numTokenTypes: 0, pooledRows: 'cls' } };
}
