// Nomic BERT (Nussbaum et al., 2024): BERT with rotated positions and gated feed-forwards, and no biases but those of norms. Config.json has
// the names of GPT-2's fields where its authors wrote it, and BERT's where transformers did.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadEncoder } from '../encoder.ts';
import { attentionOf, fusedQkv, outputProjection } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { gatedMlpOf } from '../layers/mlp.ts';
import { postNormLayer } from '../layers/post-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { bertHead } from './bert.ts';

export const nomicBert: Architecture = {
  architectures: ['NomicBertModel', 'NomicBertForMaskedLM', 'NomicBertForSequenceClassification'],
  readConfig,
  load: (context) => loadEncoder(context, { layer, head: bertHead }),
};

const attention: LoadBlock = (context, index, prefix) =>
  attentionOf(context, index, {
    qkv: fusedQkv(context, `${prefix}.Wqkv`),
    output: outputProjection(context, `${prefix}.out_proj`),
  });

const mlp = gatedMlpOf({ gate: 'fc12', up: 'fc11', down: 'fc2' });

const layer = postNormLayer(
  { load: attention, name: 'attn', norm: 'norm1' },
  { load: mlp, name: 'mlp', norm: 'norm2' },
);

const size = z.int().positive().nullish();
const no = z.literal(false).nullish();
/** The form that is served; the code of its authors has others, which nobody has published a model of, or which are mixtures. */
const ownFields = z.looseObject({
  activation_function: z.enum(['swiglu', 'geglu']).nullish(),
  prenorm: no,
  parallel_block: no,
  use_rms_norm: no,
  causal: no,
  qkv_proj_bias: no,
  mlp_fc1_bias: no,
  mlp_fc2_bias: no,
  rotary_emb_interleaved: no,
  rotary_emb_fraction: z.literal(1).nullish(),
  rotary_emb_scale_base: z.null().optional(),
  rotary_scaling_factor: z.number().positive().nullish(),
  rotary_emb_base: z.number().positive().nullish(),
  layer_norm_epsilon: z.number().positive().nullish(),
  layer_norm_eps: z.number().positive().nullish(),
  hidden_act: z.string().nullish(),
  n_embd: size,
  n_head: size,
  n_inner: size,
  n_layer: size,
  n_positions: size,
  max_trained_positions: size,
  type_vocab_size: z.int().nonnegative().nullish(),
  moe_every_n_layers: z.int().nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  if ((own.moe_every_n_layers ?? 0) > 0) {
    throw new ModelLoadError(
      `${file.path}: mixtures of experts (moe_every_n_layers) are not supported for ${file.architecture}`,
    );
  }
  const config = readDecoderConfig({ ...file, json: { ...usualFields(own), ...own } }, () => ({
    normEps: own.layer_norm_eps ?? own.layer_norm_epsilon ?? 1e-12,
    activation: own.hidden_act ?? (own.activation_function === 'geglu' ? 'gelu' : 'silu'),
    ropeTheta: 1000,
    tensorNames: {
      roots: ['nomic_bert.', 'bert.', ''],
      embedding: 'embeddings.word_embeddings',
      embeddingNorm: 'emb_ln',
      layers: 'encoder.layers',
      heads: ['classifier'],
    },
  }));
  const numTokenTypes = own.type_vocab_size ?? 2;
  return { ...config, encoder: { positions: null, numTokenTypes, pooledRows: 'cls' } };
}

/** Longer texts than those of the training need a stretching that the length of each text decides; they are refused. */
function usualFields(own: z.output<typeof ownFields>) {
  return {
    hidden_size: own.n_embd,
    num_attention_heads: own.n_head,
    intermediate_size: own.n_inner ?? 4 * (own.n_embd ?? 0),
    num_hidden_layers: own.n_layer,
    max_position_embeddings: own.max_trained_positions ?? own.n_positions,
    rope_theta: own.rotary_emb_base,
  };
}
