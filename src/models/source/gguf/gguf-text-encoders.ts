// Models whose tokens see those after them, too: embedding models and rerankers, as GGUF names what they are made of.

import { ModelLoadError } from '../../../errors.ts';
import { type GgufArchitecture, SANDWICH_NORMS } from './gguf-architecture.ts';
import type { GgufKeys } from './gguf-keys.ts';
import { HEAD, isReranker, poolingKind } from './gguf-pooling.ts';

/**
 * BERT, DistilBERT, RoBERTa and XLM-RoBERTa, all of which are converted as BERT: the rows of positions begin with that of the first one, and
 * what comes before the output of a head is called the same whatever the original calls it.
 */
const bert: GgufArchitecture = {
  name: (keys) => {
    expectWholeHead(keys);
    return 'BertModel';
  },
  fields: (keys) => ({
    layer_norm_eps: keys.ofModel('attention.layer_norm_epsilon'),
    max_position_embeddings: keys.shapeOf('position_embd.weight')?.[0] ?? keys.need('context_length'),
    type_vocab_size: rowsOf(keys, 'token_types.weight'),
  }),
  layers: 'encoder.layer',
  modelModules: {
    token_embd: 'embeddings.word_embeddings',
    token_embd_norm: 'embeddings.LayerNorm',
    token_types: 'embeddings.token_type_embeddings',
    position_embd: 'embeddings.position_embeddings',
    cls: 'pooler.dense',
    'cls.output': 'classifier',
  },
  modules: {
    attn_q: 'attention.self.query',
    attn_k: 'attention.self.key',
    attn_v: 'attention.self.value',
    attn_output: 'attention.output.dense',
    attn_output_norm: 'attention.output.LayerNorm',
    ffn_up: 'intermediate.dense',
    ffn_down: 'output.dense',
    layer_output_norm: 'output.LayerNorm',
  },
  joinsQkv: true,
  joinsPairs: true,
};

/** Those that were left out when the file was quantised are one. */
function rowsOf(keys: GgufKeys, tensor: string): number {
  const shape = keys.shapeOf(tensor);
  if (shape === null) return 0;
  return shape.length === 1 ? 1 : shape[0]!;
}

/** @throws ModelLoadError where a part of the head was lost, or is not known. */
function expectWholeHead(keys: GgufKeys): void {
  if (!isReranker(keys)) return;
  if (!keys.hasTensor(HEAD.dense)) {
    throw new ModelLoadError(
      `${keys.path}: tensor ${HEAD.dense} is missing: converters leave out the pooler of BERT, without which its scores are not ` +
        'those of the original; serve the folder that it was made of',
    );
  }
  if (!keys.hasTensor('token_types.weight')) {
    throw new ModelLoadError(
      `${keys.path}: tensor token_types.weight is missing: rerankers that are made of DistilBERT are not read from GGUF; serve the ` +
        'folder that it was made of',
    );
  }
}

const nomicBert: GgufArchitecture = {
  name: () => 'NomicBertModel',
  fields: (keys) => ({
    layer_norm_eps: keys.ofModel('attention.layer_norm_epsilon'),
    type_vocab_size: rowsOf(keys, 'token_types.weight'),
  }),
  layers: 'encoder.layers',
  modelModules: {
    token_embd: 'embeddings.word_embeddings',
    token_embd_norm: 'emb_ln',
    token_types: 'embeddings.token_type_embeddings',
  },
  modules: {
    attn_qkv: 'attn.Wqkv',
    attn_output: 'attn.out_proj',
    attn_output_norm: 'norm1',
    ffn_gate: 'mlp.fc12',
    ffn_up: 'mlp.fc11',
    ffn_down: 'mlp.fc2',
    layer_output_norm: 'norm2',
  },
  joinsPairs: true,
};

const modernBert: GgufArchitecture = {
  name: () => 'ModernBertModel',
  fields: (keys) => ({
    norm_eps: keys.ofModel('attention.layer_norm_epsilon'),
    local_attention: keys.slidingWindow,
    global_attn_every_n_layers: keys.number('modern-bert.attention.sliding_window_pattern'),
    global_rope_theta: keys.ofModel('rope.freq_base'),
    local_rope_theta: keys.ofModel('rope.freq_base_swa') ?? undefined,
    // Rerankers that do not say so score the mean.
    classifier_pooling: isReranker(keys) && poolingKind(keys) !== 'cls' ? 'mean' : 'cls',
  }),
  layers: 'layers',
  modelModules: {
    token_embd: 'embeddings.tok_embeddings',
    token_embd_norm: 'embeddings.norm',
    output_norm: 'final_norm',
    cls: 'head.dense',
    'cls.norm': 'head.norm',
    'cls.output': 'classifier',
  },
  modules: {
    attn_norm: 'attn_norm',
    attn_qkv: 'attn.Wqkv',
    attn_output: 'attn.Wo',
    ffn_norm: 'mlp_norm',
    ffn_up: 'mlp.Wi',
    ffn_down: 'mlp.Wo',
  },
  preTokenizer: 'modern-bert',
  joinsPairs: true,
};

/** EmbeddingGemma, whose windows are those of Gemma 3. */
const gemmaEmbedding: GgufArchitecture = {
  name: () => 'Gemma3TextModel',
  fields: (keys) => ({
    query_pre_attn_scalar: keys.ofModel('attention.key_length'),
    rope_theta: keys.ofModel('rope.freq_base') ?? 1_000_000,
    rope_local_base_freq: keys.ofModel('rope.freq_base_swa') ?? 10_000,
    sliding_window_pattern: keys.number('gemma-embedding.attention.sliding_window_pattern'),
    use_bidirectional_attention: true,
  }),
  modules: SANDWICH_NORMS,
  hasNormsFrom0: true,
};

export const GGUF_TEXT_ENCODERS: Readonly<Record<string, GgufArchitecture>> = {
  bert,
  'nomic-bert': nomicBert,
  'modern-bert': modernBert,
  'gemma-embedding': gemmaEmbedding,
};
