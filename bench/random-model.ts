// Writes models with random bf16 weights in the shapes of real ones, fast, for measuring: token ids in and out.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { readModelConfig } from '../src/models/registry.ts';
import { openModelSource } from '../src/models/source/model-source.ts';
import { publishedTensors } from '../test/fixtures/published-tensors.ts';
import { storedBytes, type TensorShape, writeSafetensors } from '../test/fixtures/safetensors-writer.ts';

export type RandomModelShape = 'qwen2.5-0.5b' | 'llama-3.2-1b';

const COMMON = {
  hidden_act: 'silu',
  tie_word_embeddings: true,
  torch_dtype: 'bfloat16',
  bos_token_id: 1,
  eos_token_id: 2,
};

const CONFIGS: Readonly<Record<RandomModelShape, object>> = {
  'qwen2.5-0.5b': {
    ...COMMON,
    architectures: ['Qwen2ForCausalLM'],
    model_type: 'qwen2',
    vocab_size: 151936,
    hidden_size: 896,
    intermediate_size: 4864,
    num_hidden_layers: 24,
    num_attention_heads: 14,
    num_key_value_heads: 2,
    max_position_embeddings: 32768,
    rms_norm_eps: 1e-6,
    rope_theta: 1000000,
    use_sliding_window: false,
  },
  'llama-3.2-1b': {
    ...COMMON,
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    vocab_size: 128256,
    hidden_size: 2048,
    intermediate_size: 8192,
    num_hidden_layers: 16,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    head_dim: 64,
    max_position_embeddings: 131072,
    rms_norm_eps: 1e-5,
    rope_theta: 500000,
    rope_scaling: {
      rope_type: 'llama3',
      factor: 32,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
    },
  },
};

/** Random bytes are made in pieces of this size. */
const PIECE_BYTES = 1 << 24;

export function writeConfig(folder: string, shape: RandomModelShape): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'config.json'), `${JSON.stringify(CONFIGS[shape], null, 2)}\n`);
}

/** Writes config.json and model.safetensors into `folder`, about 1 and 2.5 GB. */
export function writeRandomModel(folder: string, shape: RandomModelShape): void {
  writeConfig(folder, shape);
  const tensors = publishedTensors(readModelConfig(openModelSource(folder)));
  const piece = new Uint32Array(PIECE_BYTES / 4);
  let state = 0x9e3779b9;
  const content = function* (tensor: TensorShape): Generator<Uint8Array> {
    for (let left = storedBytes(tensor, 'bf16'); left > 0; left -= PIECE_BYTES) {
      const bytes = Math.min(left, PIECE_BYTES);
      state = fillWithSmallNumbers(piece.subarray(0, Math.ceil(bytes / 4)), state, meanOf(tensor));
      yield new Uint8Array(piece.buffer, 0, bytes);
    }
  };
  writeSafetensors(join(folder, 'model.safetensors'), tensors, 'bf16', content);
}

function meanOf({ name }: TensorShape): 0 | 1 {
  return name.endsWith('norm.weight') ? 1 : 0;
}

/** Two bf16 a word: around 0 with any sign and a size of 1/64 to 1/32, around 1 from 1 to 1.25. */
function fillWithSmallNumbers(words: Uint32Array, seed: number, mean: 0 | 1): number {
  const [mask, base] = mean === 0 ? [0x807f807f, 0x3c803c80] : [0x001f001f, 0x3f803f80];
  let state = seed;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = (state & mask) | base;
  }
  return state;
}

function isShape(name: string | undefined): name is RandomModelShape {
  return name !== undefined && name in CONFIGS;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [shape, folder] = process.argv.slice(2);
  if (!isShape(shape) || folder === undefined) {
    console.error(`usage: tsx bench/random-model.ts ${Object.keys(CONFIGS).join('|')} FOLDER`);
    process.exit(2);
  }
  writeRandomModel(folder, shape);
}
