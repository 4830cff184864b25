// Folders that cannot be served: each error names the file, the tensor and what was expected.

import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import type { Model } from '../../src/models/model.ts';
import { loadModel } from '../../src/models/registry.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type TinyModelOptions, writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

function tinyModel(options: TinyModelOptions = {}): string {
  const folder = newFolder();
  writeTinyModel(folder, options);
  return folder;
}

const load = (folder: string, maxModelLen: number | null = null): Promise<Model> =>
  loadModel(folder, new ReferenceOps(), { dtype: 'auto', maxModelLen });

function edit(folder: string, file: string, change: (fields: Record<string, unknown>) => object): void {
  const path = join(folder, file);
  writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')))));
}

const setConfig = (folder: string, fields: object) =>
  edit(folder, 'config.json', (config) => ({ ...config, ...fields }));

describe('loadModel', () => {
  it('refuses a path that is no folder', async () => {
    await expect(load('/nowhere/at/all')).rejects.toThrow('/nowhere/at/all is no folder');
  });

  it('refuses a folder without config.json', async () => {
    const folder = tinyModel();
    rmSync(join(folder, 'config.json'));
    await expect(load(folder)).rejects.toThrow(`${folder}/config.json is missing`);
  });

  it('lists the supported architectures for an unknown one', async () => {
    const folder = tinyModel();
    setConfig(folder, { architectures: ['MambaForCausalLM'] });
    await expect(load(folder)).rejects.toThrow(
      'architecture MambaForCausalLM is not supported; supported are LlamaForCausalLM, MistralForCausalLM, ' +
        'Qwen2ForCausalLM, Qwen3ForCausalLM',
    );
  });

  it('names a missing tensor and its shape', async () => {
    const folder = tinyModel();
    setConfig(folder, { attention_bias: true });
    await expect(load(folder)).rejects.toThrow(ModelLoadError);
    await expect(load(folder)).rejects.toThrow(
      `${folder}: tensor model.layers.0.self_attn.q_proj.bias [64] is missing`,
    );
  });

  it('refuses more layers than any model has, at once', async () => {
    const folder = tinyModel();
    setConfig(folder, { num_hidden_layers: 1e9 });
    await expect(load(folder)).rejects.toThrow(/config\.json: num_hidden_layers: .*10000/);
  });

  it('asks for a shorter context where the one of the model is too long to hold', async () => {
    const folder = tinyModel();
    setConfig(folder, { max_position_embeddings: 1e9 });
    await expect(load(folder)).rejects.toThrow(
      'a context of 1000000000 tokens (max_position_embeddings in config.json) is more than svc can hold: ' +
        'give --max-model-len, at most 10000000',
    );
    await expect(load(folder, 128)).resolves.toBeDefined();
  });

  it('asks for an output head where it is not tied to the embeddings', async () => {
    const folder = tinyModel();
    setConfig(folder, { tie_word_embeddings: false });
    await expect(load(folder)).rejects.toThrow('tensor lm_head.weight [320, 64] is missing');
  });

  it('names file, tensor and both shapes when they differ', async () => {
    const folder = tinyModel();
    setConfig(folder, { intermediate_size: 128 });
    await expect(load(folder)).rejects.toThrow(
      `${folder}/model.safetensors: tensor model.layers.0.mlp.gate_proj.weight must be [128, 64] by config.json, ` +
        'it is [112, 64]',
    );
  });

  it('names the file and the tensor at which it is cut off', async () => {
    const folder = tinyModel();
    const path = join(folder, 'model.safetensors');
    truncateSync(path, readFileSync(path).length - 1);
    await expect(load(folder)).rejects.toThrow(`${path}: tensor model.norm.weight ends at byte`);
  });

  it('refuses numbers in a format that it cannot compute with', async () => {
    const folder = tinyModel();
    const path = join(folder, 'model.safetensors');
    const bytes = readFileSync(path);
    bytes.write('I32', bytes.indexOf('F32'));
    writeFileSync(path, bytes);
    await expect(load(folder)).rejects.toThrow('must be F32, F16 or BF16, it is I32');
  });

  it('names a shard that is missing', async () => {
    const folder = tinyModel({ shards: 3 });
    const shard = join(folder, 'model-00002-of-00003.safetensors');
    rmSync(shard);
    await expect(load(folder)).rejects.toThrow(`${shard} is missing`);
  });

  it('refuses an index that is malformed or leads out of the folder', async () => {
    const folder = tinyModel({ shards: 2 });
    const index = 'model.safetensors.index.json';
    edit(folder, index, () => ({ weight_map: { a: '../secret.safetensors' } }));
    await expect(load(folder)).rejects.toThrow(
      `${index}: weight_map.a: must be the name of a file in the folder`,
    );
    writeFileSync(join(folder, index), '{');
    await expect(load(folder)).rejects.toThrow(`${index} is not valid JSON`);
  });

  it('says what is there instead of weights that it can read', async () => {
    const folder = tinyModel();
    rmSync(join(folder, 'model.safetensors'));
    await expect(load(folder)).rejects.toThrow(`${folder} holds no *.safetensors file`);
    writeFileSync(join(folder, 'pytorch_model.bin'), '');
    await expect(load(folder)).rejects.toThrow('pytorch_model.bin is in a format that svc does not read');
  });

  it('refuses several files without an index', async () => {
    const folder = tinyModel({ shards: 2 });
    rmSync(join(folder, 'model.safetensors.index.json'));
    await expect(load(folder)).rejects.toThrow('2 *.safetensors files and no model.safetensors.index.json');
  });

  it('refuses a context longer than the model’s before it reads a weight', async () => {
    const folder = tinyModel();
    rmSync(join(folder, 'model.safetensors'));
    await expect(load(folder, 513)).rejects.toThrow(ConfigError);
    await expect(load(folder, 513)).rejects.toThrow("longer than the model's own limit of 512 tokens");
  });

  it('passes over tensors that the model does not use', async () => {
    const folder = tinyModel();
    setConfig(folder, { num_hidden_layers: 2 });
    expect((await load(folder)).config.numLayers).toBe(2);
    expect(readdirSync(folder)).toContain('model.safetensors');
  });
});
