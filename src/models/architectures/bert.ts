// BERT (Devlin et al., 2019) and its kin: RoBERTa (Liu et al., 2019), and XLM-RoBERTa (Conneau et al., 2020). Each token sees
// those after it, too; positions are learned, and norms come after each block.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture, LoadContext } from '../architecture.ts';
import { type LoadEncoderHead, loadEncoder } from '../encoder.ts';
import { attentionOf } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { postNormLayer } from '../layers/post-norm-layer.ts';
import { type ConfigFile, type EncoderConfig, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { activated, headOf, type PoolingHead, product } from '../pooling/pooling-head.ts';

export const bert: Architecture = {
  architectures: ['BertModel', 'BertForMaskedLM', 'BertForSequenceClassification'],
  readConfig: (file) => readEncoderConfig(file, 'bert.', () => 0),
  load: (context) => loadEncoder(context, { layer: bertLayer, head: bertHead }),
};

export const roberta: Architecture = {
  architectures: [
    'RobertaModel',
    'RobertaForMaskedLM',
    'RobertaForSequenceClassification',
    'XLMRobertaModel',
    'XLMRobertaForMaskedLM',
    'XLMRobertaForSequenceClassification',
  ],
  // Positions count on from that of padding.
  readConfig: (file) => readEncoderConfig(file, 'roberta.', ({ pad_token_id }) => (pad_token_id ?? 1) + 1),
  load: (context) => loadEncoder(context, { layer: bertLayer, head: robertaHead }),
};

const bertAttention: LoadBlock = (context, layer, prefix) => {
  const { hiddenSize: n } = context.config;
  const part = (name: string) => ({ name: `${prefix}.self.${name}`, n, bias: true });
  return attentionOf(context, layer, {
    qkv: context.weights.columns([part('query'), part('key'), part('value')], n),
    output: context.weights.row({ name: `${prefix}.output.dense`, n, bias: true }, n),
  });
};

const bertLayer = postNormLayer(
  { load: bertAttention, name: 'attention', norm: 'attention.output.LayerNorm' },
  { load: plainMlp({ up: 'intermediate.dense', down: 'output.dense' }), norm: 'output.LayerNorm' },
);

/** output(tanh(dense(row))) */
function tangentHead({ weights, config }: LoadContext, dense: string, output: string): PoolingHead {
  const { hiddenSize: n } = config;
  return headOf(
    product(weights.classifier(dense, n, n, true)),
    activated('tanh'),
    product(weights.classifier(output, 1, n, true)),
  );
}

/** output(tanh(dense(first row))) */
export const bertHead: LoadEncoderHead = (context, root) =>
  tangentHead(context, `${root}pooler.dense`, 'classifier');

const robertaHead: LoadEncoderHead = (context) =>
  tangentHead(context, 'classifier.dense', 'classifier.out_proj');

const ownFields = z.looseObject({
  hidden_act: z.string().nullish(),
  layer_norm_eps: z.number().positive().nullish(),
  max_position_embeddings: z.int().positive(),
  pad_token_id: z.int().nonnegative().nullish(),
  type_vocab_size: z.int().nonnegative().nullish(),
  position_embedding_type: z.string().nullish(),
  is_decoder: z.boolean().nullish(),
});

function readEncoderConfig(
  file: ConfigFile,
  root: string,
  offsetOf: (fields: z.output<typeof ownFields>) => number,
): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  if ((own.position_embedding_type ?? 'absolute') !== 'absolute' || own.is_decoder) {
    throw new ModelLoadError(
      `${file.path}: position_embedding_type must be absolute and is_decoder false: other forms of ${file.architecture} are not supported`,
    );
  }
  const offset = offsetOf(own);
  const count = own.max_position_embeddings - offset;
  if (count < 1) {
    throw new ModelLoadError(
      `${file.path}: max_position_embeddings must be more than ${offset}, got ${own.max_position_embeddings}`,
    );
  }
  const positions = { count, offset };
  const encoder: EncoderConfig = { positions, numTokenTypes: own.type_vocab_size ?? 2, pooledRows: 'cls' };
  const json = { ...own, hidden_act: own.hidden_act ?? 'gelu', max_position_embeddings: count };
  const config = readDecoderConfig({ ...file, json }, () => ({
    normEps: own.layer_norm_eps ?? 1e-12,
    qkvBias: true,
    attentionOutputBias: true,
    mlpBias: true,
    ropeOf: () => null,
    tensorNames: {
      roots: [root, ''],
      embedding: 'embeddings.word_embeddings',
      positions: 'embeddings.position_embeddings',
      layers: 'encoder.layer',
      embeddingNorm: 'embeddings.LayerNorm',
      heads: ['classifier'],
    },
  }));
  return { ...config, encoder };
}
