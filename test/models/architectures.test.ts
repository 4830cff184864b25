// What each architecture makes of a config.json, and the list of all.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { llama } from '../../src/models/llama.ts';
import { mistral } from '../../src/models/mistral.ts';
import type { ModelConfig } from '../../src/models/model-config.ts';
import { qwen2 } from '../../src/models/qwen2.ts';
import { qwen3 } from '../../src/models/qwen3.ts';
import {
  ARCHITECTURE_NAMES,
  ARCHITECTURES,
  findArchitecture,
  readModelConfig,
} from '../../src/models/registry.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

const FIELDS = {
  vocab_size: 100,
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  max_position_embeddings: 1000,
};
/** Of architectures with experts or latent attention. */
const EXPERT_FIELDS = {
  num_local_experts: 4,
  num_experts_per_tok: 2,
  moe_intermediate_size: 32,
  shared_expert_intermediate_size: 32,
  kv_lora_rank: 16,
  qk_nope_head_dim: 8,
  qk_rope_head_dim: 4,
  v_head_dim: 8,
};
const ALL_BIASES = { attention_bias: true, mlp_bias: true };
const NO_TRAITS = {
  headDim: 16,
  qkvBias: false,
  attentionOutputBias: false,
  mlpBias: false,
  hasHeadNorms: false,
  layerWindows: [null, null, null, null],
};

describe('the list of architectures', () => {
  it('names each architecture once', () => {
    expect(new Set(ARCHITECTURE_NAMES).size).toBe(ARCHITECTURE_NAMES.length);
    expect(ARCHITECTURES.flatMap(({ architectures }) => architectures)).toEqual(ARCHITECTURE_NAMES);
  });

  it.each(ARCHITECTURE_NAMES)('lets %s read its own config.json', (name) => {
    const folder = newFolder();
    mkdirSync(folder);
    writeFileSync(
      join(folder, 'config.json'),
      JSON.stringify({ ...FIELDS, ...EXPERT_FIELDS, architectures: ['Unknown', name] }),
    );
    const config = readModelConfig(new FolderFiles(folder));
    expect(config.architecture).toBe(name);
    const json = { ...FIELDS, ...EXPERT_FIELDS };
    expect(config).toEqual(
      findArchitecture(name).readConfig({ path: 'config.json', architecture: name, json }),
    );
  });
});

describe('readConfig', () => {
  const reader =
    (architecture: typeof llama) =>
    (fields: object): ModelConfig =>
      architecture.readConfig({ path: 'config.json', architecture: 'Any', json: { ...FIELDS, ...fields } });

  it('of Llama takes biases where the config asks for them, and never a window', () => {
    const read = reader(llama);
    expect(read({ sliding_window: 8 })).toMatchObject(NO_TRAITS);
    const biases = { qkvBias: true, attentionOutputBias: true, mlpBias: true };
    expect(read(ALL_BIASES)).toMatchObject({ ...NO_TRAITS, ...biases });
    expect(read({ mlp_bias: true })).toMatchObject({ ...NO_TRAITS, mlpBias: true });
  });

  it('of Mistral takes no biases, and one window for all layers', () => {
    const read = reader(mistral);
    expect(read({ ...ALL_BIASES, sliding_window: null })).toMatchObject(NO_TRAITS);
    expect(read({ sliding_window: 8 }).layerWindows).toEqual([8, 8, 8, 8]);
    expect(read({}).slidingWindow).toBe(4096);
  });

  it('of Qwen 2 has biases on queries, keys and values whatever the config says', () => {
    const read = reader(qwen2);
    expect(read(ALL_BIASES)).toMatchObject({ ...NO_TRAITS, qkvBias: true });
    expect(read({})).toMatchObject({ ...NO_TRAITS, qkvBias: true });
  });

  it('of Qwen 3 normalises heads of 128 numbers, with biases of attention where the config asks for them', () => {
    const read = reader(qwen3);
    expect(read({})).toMatchObject({ ...NO_TRAITS, headDim: 128, hasHeadNorms: true });
    expect(read({ head_dim: 32 }).headDim).toBe(32);
    const biases = { qkvBias: true, attentionOutputBias: true, mlpBias: false };
    expect(read(ALL_BIASES)).toMatchObject(biases);
  });

  it.each([qwen2, qwen3])(
    'of Qwen slides from layer max_window_layers on, only where it is told to',
    (qwen) => {
      const read = reader(qwen);
      const window = { sliding_window: 8, max_window_layers: 3 };
      expect(read(window).layerWindows).toEqual([null, null, null, null]);
      expect(read({ ...window, use_sliding_window: true }).layerWindows).toEqual([null, null, null, 8]);
    },
  );
});
