// Writes a Qwen2 checkpoint as GGUF, with the same weights. Of the architectures of svc it is the one whose matrices both formats
// keep alike: those of Llama have their queries and keys in another order in GGUF, for its rotation pairs neighbours.

import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { ModelConfig } from '../../src/models/model-config.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { readSafetensors, type StoredTensor } from '../../src/models/source/safetensors.ts';
import { unpackBf16 } from '../../src/ops/float-formats.ts';
import {
  type GgmlType,
  type GgufTensor,
  type GgufValue,
  writeGguf,
} from '../../test/fixtures/gguf-writer.ts';
import { packQ4, packQ8 } from './ggml-blocks.ts';

/** Numbers that are converted at once: whole blocks of any format. */
const PIECE = 1 << 22;

const GLOBAL_NAMES: Readonly<Record<string, string>> = {
  'model.embed_tokens.weight': 'token_embd.weight',
  'model.norm.weight': 'output_norm.weight',
  'lm_head.weight': 'output.weight',
};

const LAYER_NAMES: Readonly<Record<string, string>> = {
  input_layernorm: 'attn_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.o_proj': 'attn_output',
  post_attention_layernorm: 'ffn_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
};

/**
 * @param folder holds config.json and a model.safetensors of f32 or bf16.
 * @param type of the matrices; vectors are always f32.
 */
export function writeGgufModel(folder: string, path: string, type: GgmlType): void {
  const config = readModelConfig(openModelSource(folder));
  if (config.architecture !== 'Qwen2ForCausalLM' || config.layerRopes[0]!.kind !== 'default') {
    throw new Error(`only a plain Qwen2 is written as GGUF, not ${config.architecture}`);
  }
  const stored = readSafetensors(join(folder, 'model.safetensors'));
  const sources = new Map([...stored].map(([name, tensor]) => [ggufName(name), tensor]));
  const tensors = [...sources].map(
    ([name, { shape }]): GgufTensor => ({ name, shape, type: shape.length === 1 ? 'F32' : type }),
  );
  writeGguf(path, ggufMetadata(config, 'qwen2'), tensors, (tensor) =>
    contentOf(sources.get(tensor.name)!, tensor.type),
  );
}

/** The name in GGUF of a tensor of Qwen2 or Llama. */
export function ggufName(name: string): string {
  const known = GLOBAL_NAMES[name];
  if (known !== undefined) return known;
  const [, layer, module = '', kind] = /^model\.layers\.(\d+)\.(.+)\.(weight|bias)$/.exec(name) ?? [];
  const renamed = LAYER_NAMES[module];
  if (renamed === undefined) throw new Error(`GGUF has no tensor for ${name}`);
  return `blk.${layer}.${renamed}.${kind}`;
}

/** Hyperparameters in the spelling of the GGUF specification, and a vocabulary in which each token is its number. */
export function ggufMetadata(
  config: ModelConfig,
  architecture: 'qwen2' | 'llama',
): Record<string, GgufValue> {
  const ids = Array.from({ length: config.vocabSize }, (_, id) => id);
  return {
    'general.architecture': { string: architecture },
    'general.name': { string: 'random weights' },
    [`${architecture}.block_count`]: { u32: config.numLayers },
    [`${architecture}.context_length`]: { u32: config.maxPositionEmbeddings },
    [`${architecture}.embedding_length`]: { u32: config.hiddenSize },
    [`${architecture}.feed_forward_length`]: { u32: config.intermediateSize },
    [`${architecture}.attention.head_count`]: { u32: config.numHeads },
    [`${architecture}.attention.head_count_kv`]: { u32: config.numKvHeads },
    [`${architecture}.attention.key_length`]: { u32: config.headDim },
    [`${architecture}.attention.value_length`]: { u32: config.headDim },
    [`${architecture}.attention.layer_norm_rms_epsilon`]: { f32: config.normEps },
    [`${architecture}.rope.freq_base`]: { f32: config.layerRopes[0]!.theta },
    'tokenizer.ggml.model': { string: 'gpt2' },
    'tokenizer.ggml.pre': { string: 'qwen2' },
    'tokenizer.ggml.tokens': { strings: ids.map((id) => `<${id}>`) },
    // 1 is an ordinary token.
    'tokenizer.ggml.token_type': { i32s: ids.map(() => 1) },
    'tokenizer.ggml.merges': { strings: ['< 1'] },
    'tokenizer.ggml.bos_token_id': { u32: 1 },
    'tokenizer.ggml.eos_token_id': { u32: 2 },
  };
}

function* contentOf(
  { path, dtype, byteOffset, byteLength }: StoredTensor,
  type: GgmlType,
): Generator<Uint8Array> {
  const bytesPerNumber = dtype === 'BF16' ? 2 : 4;
  const file = openSync(path, 'r');
  try {
    for (let at = 0; at < byteLength; at += PIECE * bytesPerNumber) {
      const bytes = new Uint8Array(Math.min(PIECE * bytesPerNumber, byteLength - at));
      readSync(file, bytes, 0, bytes.length, byteOffset + at);
      if (dtype === type) yield bytes;
      else yield convert(bytesPerNumber === 2 ? fromBf16(bytes) : new Float32Array(bytes.buffer), type);
    }
  } finally {
    closeSync(file);
  }
}

function fromBf16(bytes: Uint8Array): Float32Array {
  const values = new Float32Array(bytes.length / 2);
  unpackBf16(new Uint16Array(bytes.buffer), values);
  return values;
}

function convert(values: Float32Array, type: GgmlType): Uint8Array {
  if (type === 'Q8_0') return packQ8(values);
  if (type === 'Q4_0') return packQ4(values);
  if (type === 'F32') return new Uint8Array(values.buffer);
  throw new Error(`weights that are not ${type} cannot be written as ${type}`);
}
