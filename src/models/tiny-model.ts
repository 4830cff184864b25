// Makes a tiny model with random weights as a complete published folder: served where no model is named, and the
// ground that tests stand on.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { StorageDType } from '../ops/dtype.ts';
import { packBf16, packF16 } from '../ops/float-formats.ts';
import { type Architecture, readModelConfig } from './model-config.ts';
import { publishedTensors } from './published-tensors.ts';
import {
  TINY_BOS_ID,
  TINY_EOS_ID,
  TINY_VOCAB_SIZE,
  tinyTokenizer,
  tinyTokenizerConfig,
} from './tiny-tokenizer.ts';
import { storedBytes, type TensorShape, writeSafetensors } from './weights/safetensors-writer.ts';

export interface TinyModelOptions {
  readonly architecture?: Architecture;
  /** Format in which the weights are written. */
  readonly dtype?: StorageDType;
  /** More than one writes model-0000i-of-0000n.safetensors and their index. */
  readonly shards?: number;
  /** The same seed gives the same bytes. */
  readonly seed?: number;
  /** Fields of config.json that replace or join the usual ones. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly generationConfig?: Readonly<Record<string, unknown>>;
  /** False leaves tokenizer.json and tokenizer_config.json out. */
  readonly tokenizer?: boolean;
}

const MODEL_TYPES: Readonly<Record<Architecture, string>> = {
  LlamaForCausalLM: 'llama',
  MistralForCausalLM: 'mistral',
  Qwen2ForCausalLM: 'qwen2',
  Qwen3ForCausalLM: 'qwen3',
};

const TORCH_DTYPES: Readonly<Record<StorageDType, string>> = {
  f32: 'float32',
  f16: 'float16',
  bf16: 'bfloat16',
};

/** Standard deviation of the matrices: large enough that a random model's next token depends on its context. */
const DEVIATION = 0.08;

/** Writes a random model into `folder`, which is made where it is missing. */
export function writeTinyModel(folder: string, options: TinyModelOptions = {}): void {
  const { dtype = 'f32', shards = 1, seed = 0 } = options;
  mkdirSync(folder, { recursive: true });
  const fields = configFields(options);
  writeJson(folder, 'config.json', fields);
  writeJson(folder, 'generation_config.json', {
    bos_token_id: TINY_BOS_ID,
    eos_token_id: TINY_EOS_ID,
    ...options.generationConfig,
  });
  const config = readModelConfig(folder);
  if (options.tokenizer ?? true) {
    writeJson(folder, 'tokenizer.json', tinyTokenizer());
    writeJson(folder, 'tokenizer_config.json', tinyTokenizerConfig(config.maxPositionEmbeddings));
  }
  const random = new SmallRandom(seed);
  const content = (tensor: TensorShape) => [pack(randomWeights(tensor, random), dtype)];
  writeShards(folder, publishedTensors(config), dtype, shards, content);
}

function configFields(options: TinyModelOptions): Readonly<Record<string, unknown>> {
  const architecture = options.architecture ?? 'LlamaForCausalLM';
  return {
    architectures: [architecture],
    model_type: MODEL_TYPES[architecture],
    vocab_size: TINY_VOCAB_SIZE,
    hidden_size: 64,
    intermediate_size: 112,
    num_hidden_layers: 3,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 16,
    hidden_act: 'silu',
    max_position_embeddings: 512,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    rope_scaling: null,
    sliding_window: architecture === 'MistralForCausalLM' ? 32 : null,
    tie_word_embeddings: true,
    bos_token_id: TINY_BOS_ID,
    eos_token_id: TINY_EOS_ID,
    torch_dtype: TORCH_DTYPES[options.dtype ?? 'f32'],
    ...options.config,
  };
}

function writeJson(folder: string, name: string, content: object): void {
  writeFileSync(join(folder, name), `${JSON.stringify(content, null, 2)}\n`);
}

function writeShards(
  folder: string,
  tensors: readonly TensorShape[],
  dtype: StorageDType,
  shards: number,
  content: (tensor: TensorShape) => Iterable<Uint8Array>,
): void {
  if (shards === 1) {
    writeSafetensors(join(folder, 'model.safetensors'), tensors, dtype, content);
    return;
  }
  const weightMap: Record<string, string> = {};
  const five = (number: number) => String(number).padStart(5, '0');
  for (let shard = 0; shard < shards; shard++) {
    const file = `model-${five(shard + 1)}-of-${five(shards)}.safetensors`;
    const [from, to] = [shard, shard + 1].map((edge) => Math.round((edge * tensors.length) / shards));
    const mine = tensors.slice(from, to);
    writeSafetensors(join(folder, file), mine, dtype, content);
    for (const { name } of mine) weightMap[name] = file;
  }
  const total_size = tensors.reduce((sum, tensor) => sum + storedBytes(tensor, dtype), 0);
  writeJson(folder, 'model.safetensors.index.json', { metadata: { total_size }, weight_map: weightMap });
}

/** Norms lie around 1, everything else around 0. */
function randomWeights({ name, shape }: TensorShape, random: SmallRandom): Float32Array {
  const count = shape.reduce((product, length) => product * length, 1);
  const mean = name.endsWith('norm.weight') ? 1 : 0;
  return Float32Array.from({ length: count }, () => mean + DEVIATION * random.normal());
}

function pack(values: Float32Array, dtype: StorageDType): Uint8Array {
  if (dtype === 'f32') return new Uint8Array(values.buffer);
  const packed = new Uint16Array(values.length);
  if (dtype === 'bf16') packBf16(values, packed);
  else packF16(values, packed);
  return new Uint8Array(packed.buffer);
}

/** A small generator of its own, so that the same seed gives the same model in every version of Node. */
class SmallRandom {
  private state: number;

  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  /** In [0, 1). */
  private uniform(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), this.state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Close to a normal distribution, with neither logarithm nor sine: the sum of twelve uniform numbers. */
  normal(): number {
    let sum = -6;
    for (let i = 0; i < 12; i++) sum += this.uniform();
    return sum;
  }
}
