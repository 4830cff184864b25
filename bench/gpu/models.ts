// Tokens a second of whole models, with made-up weights: prefill, and decode steps of 1, 64 and 256 sequences at 1024 tokens.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Goals, measureModel, type Workload } from './measure-model.ts';
import { report } from './result.ts';

interface Model {
  readonly name: string;
  readonly config: object;
  readonly goals: Goals;
}

const COMMON = {
  hidden_act: 'silu',
  torch_dtype: 'bfloat16',
  bos_token_id: 1,
  eos_token_id: 2,
  head_dim: 128,
};

const MODELS: readonly Model[] = [
  {
    name: 'Qwen3-0.6B',
    config: {
      ...COMMON,
      architectures: ['Qwen3ForCausalLM'],
      model_type: 'qwen3',
      vocab_size: 151936,
      hidden_size: 1024,
      intermediate_size: 3072,
      num_hidden_layers: 28,
      num_attention_heads: 16,
      num_key_value_heads: 8,
      max_position_embeddings: 40960,
      rms_norm_eps: 1e-6,
      rope_theta: 1000000,
      tie_word_embeddings: true,
    },
    goals: { decode: { 1: 800 } },
  },
  {
    name: 'Llama-3.1-8B',
    config: {
      ...COMMON,
      architectures: ['LlamaForCausalLM'],
      model_type: 'llama',
      vocab_size: 128256,
      hidden_size: 4096,
      intermediate_size: 14336,
      num_hidden_layers: 32,
      num_attention_heads: 32,
      num_key_value_heads: 8,
      max_position_embeddings: 131072,
      rms_norm_eps: 1e-5,
      rope_theta: 500000,
      tie_word_embeddings: false,
    },
    goals: { prefill: 30000, decode: { 1: 160, 64: 5700, 256: 10900 } },
  },
];

const WORKLOAD: Workload = { context: 1024, sequences: [1, 64, 256], steps: 24 };
const { values } = parseArgs({ options: { model: { type: 'string' } } });
if (values.model === undefined) await measureAll();
else
  for await (const result of measureModel(values.model, values.model, WORKLOAD, { decode: {} }))
    report(result);

async function measureAll(): Promise<void> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
  try {
    for (const { name, config, goals } of MODELS) {
      const path = join(folder, name);
      mkdirSync(path);
      writeFileSync(join(path, 'config.json'), JSON.stringify(config));
      for await (const result of measureModel(name, path, WORKLOAD, goals)) report(result);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}
