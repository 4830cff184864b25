// Folders that cannot be served: each error names the file, the tensor and what was expected.

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import type { Model } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type TinyModelOptions, writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();

function tinyModel(options: TinyModelOptions = {}): string {
  const folder = newFolder();
  writeTinyModel(folder, options);
  return folder;
}

const load = async (folder: string, maxModelLen: number | null = null): Promise<Model> =>
  loadModel(openModelSource(folder), new ReferenceOps(), { dtype: 'auto', maxModelLen });

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
    await expect(load(folder)).rejects.toThrow(
      `${folder}/config.json is missing: a model folder holds config.json and *.safetensors; where it holds *.gguf files, name one of them`,
    );
  });

  it('lists the supported architectures for an unknown one', async () => {
    const folder = tinyModel();
    setConfig(folder, { architectures: ['MambaForCausalLM'] });
    await expect(load(folder)).rejects.toThrow(
      /architecture MambaForCausalLM is not supported; supported are those of Llama, .*GptOss/,
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

  it.each(['num_hidden_layers', 'num_attention_heads'])(
    'refuses more than any model has, at once: %s',
    async (field) => {
      const folder = tinyModel();
      setConfig(folder, { [field]: 1e9 });
      await expect(load(folder)).rejects.toThrow(
        new RegExp(`config\\.json: ${field} must be at most 10000, got 1000000000`),
      );
    },
  );

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
      `${index}: weight_map.a must be the name of a file in the folder`,
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

  it('refuses a checkpoint of more layers than config.json before it reads a weight', async () => {
    const folder = tinyModel();
    setConfig(folder, { num_hidden_layers: 1 });
    const unread = new Error('a weight was read');
    const failing = Object.assign(new ReferenceOps(), {
      loadLinear: () => {
        throw unread;
      },
    });
    const loading = loadModel(openModelSource(folder), failing, { dtype: 'auto', maxModelLen: null });
    await expect(loading).rejects.toThrow(ModelLoadError);
    await expect(loading).rejects.toThrow(
      'the checkpoint has 3 layers (model.layers.2.input_layernorm.weight), num_hidden_layers in config.json says 1: ' +
        'the answers would be nonsense; mend config.json (or --hf-overrides) or fetch the model again',
    );
  });

  it('refuses a checkpoint of fewer layers than config.json', async () => {
    const folder = tinyModel();
    setConfig(folder, { num_hidden_layers: 5 });
    await expect(load(folder)).rejects.toThrow(
      'the checkpoint has 3 layers (model.layers.2.input_layernorm.weight), num_hidden_layers in config.json says 5: ' +
        'the others are missing; mend config.json (or --hf-overrides) or fetch the model again',
    );
  });

  it('refuses tensors of a layer that the architecture does not compute with', async () => {
    const folder = tinyModel({ config: { attention_bias: true } });
    setConfig(folder, { attention_bias: false });
    await expect(load(folder)).rejects.toThrow(
      'tensor model.layers.0.self_attn.q_proj.bias is in the checkpoint, LlamaForCausalLM with this config.json ' +
        'does not use it',
    );
  });

  it('warns of tensors beside the layers that it does not use, but not of a head that is tied', async () => {
    const folder = tinyModel({ config: { tie_word_embeddings: false } });
    const warnings: string[] = [];
    const options = {
      dtype: 'auto',
      maxModelLen: null,
      onWarning: (text: string) => warnings.push(text),
    } as const;
    setConfig(folder, { tie_word_embeddings: true });
    fillTensor(folder, 'lm_head.weight');
    fillTensor(folder, 'model.embed_tokens.weight');
    await loadModel(openModelSource(folder), new ReferenceOps(), options);
    expect(warnings).toEqual([]);
    renameTensor(folder, 'lm_head.weight', 'sm_head.weight');
    await loadModel(openModelSource(folder), new ReferenceOps(), options);
    expect(warnings).toEqual([`${folder}: these tensors are not used: sm_head.weight`]);
  });

  it('takes a head that is not the embeddings, whatever config.json says, and warns', async () => {
    const folder = tinyModel({ config: { tie_word_embeddings: false } });
    const warnings: string[] = [];
    const logits = async (): Promise<Float32Array> => {
      const ops = new ReferenceOps();
      const options = {
        dtype: 'auto',
        maxModelLen: null,
        onWarning: (text: string) => warnings.push(text),
      } as const;
      const model = await loadModel(openModelSource(folder), ops, options);
      return new ModelSession(ops, model, 3).run([3, 4, 5], 1);
    };
    const expected = await logits();
    expect(warnings).toEqual([]);
    setConfig(folder, { tie_word_embeddings: true });
    expect(await logits()).toEqual(expected);
    expect(warnings).toEqual([
      `${folder}: the output head is lm_head.weight, which is not the embeddings, although tie_word_embeddings in ` +
        'config.json says so: set it to false',
    ]);
  });

  it('is silent about rotary frequencies that a release holds beside its weights', async () => {
    const folder = tinyModel();
    const warnings: string[] = [];
    setConfig(folder, { num_hidden_layers: 2 });
    const old = 'model.layers.2.post_attention_layernorm.weight';
    const config = {
      dtype: 'auto',
      maxModelLen: null,
      onWarning: (text: string) => warnings.push(text),
    } as const;
    for (const name of tensorNames(folder).filter((one) => one.startsWith('model.layers.2.'))) {
      renameTensor(
        folder,
        name,
        name === old ? 'model.layers.1.self_attn.rotary_emb.inv_freq' : `old.${name}`,
      );
    }
    await loadModel(openModelSource(folder), new ReferenceOps(), config);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).not.toContain('inv_freq');
  });

  it('names the two files that have the same tensor', async () => {
    const folder = tinyModel({ shards: 2 });
    const [first, second] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
    copyFileSync(join(folder, first!), join(folder, second!));
    await expect(load(folder)).rejects.toThrow(
      `tensor model.embed_tokens.weight is in two files, ${join(folder, first!)} and ${join(folder, second!)}`,
    );
  });

  it('refuses weights into which somebody writes while they are loaded', async () => {
    const folder = tinyModel();
    const path = join(folder, 'model.safetensors');
    const write = (): void => {
      const bytes = readFileSync(path);
      bytes.fill(0, bytes.length - 64);
      writeFileSync(path, bytes);
    };
    const options = { dtype: 'auto', maxModelLen: null, onProgress: write } as const;
    await expect(loadModel(openModelSource(folder), new ReferenceOps(), options)).rejects.toThrow(
      `${path} was changed while it was being loaded`,
    );
  });

  it.each(availableBackends)(
    'says on %s that weights were cut off while they were loaded',
    async (backend) => {
      const folder = tinyModel();
      const path = join(folder, 'model.safetensors');
      const ops = openBackend(backend);
      const options = {
        dtype: 'auto',
        maxModelLen: null,
        onProgress: () => truncateSync(path, 10_000),
      } as const;
      await expect(loadModel(openModelSource(folder), ops, options)).rejects.toThrow(ModelLoadError);
      await expect(loadModel(openModelSource(folder), ops, options)).rejects.toThrow(path);
      ops.close();
    },
  );

  it.each(['config.json', 'model.safetensors', 'model.safetensors.index.json'])(
    'refuses a pipe or a folder in the place of %s at once',
    async (file) => {
      const path = join(tinyModel(), file);
      rmSync(path, { force: true });
      expect(spawnSync('mkfifo', [path]).status).toBe(0);
      await expect(load(dirname(path))).rejects.toThrow(`${path} must be a file, it is a pipe or device`);
      rmSync(path);
      mkdirSync(path);
      await expect(load(dirname(path))).rejects.toThrow(ModelLoadError);
      await expect(load(dirname(path))).rejects.toThrow(`${path} must be a file, it is a folder`);
    },
  );
});

const SAFETENSORS = 'model.safetensors';

function tensorNames(folder: string): string[] {
  const bytes = readFileSync(join(folder, SAFETENSORS));
  const header: object = JSON.parse(bytes.toString('utf8', 8, 8 + Number(bytes.readBigUInt64LE())));
  return Object.keys(header);
}

/** Makes all of its bytes zeros. */
function fillTensor(folder: string, name: string): void {
  const path = join(folder, SAFETENSORS);
  const bytes = readFileSync(path);
  const start = 8 + Number(bytes.readBigUInt64LE());
  const { [name]: tensor } = JSON.parse(bytes.toString('utf8', 8, start));
  bytes.fill(0, start + tensor.data_offsets[0], start + tensor.data_offsets[1]);
  writeFileSync(path, bytes);
}

function renameTensor(folder: string, from: string, to: string): void {
  const path = join(folder, SAFETENSORS);
  const bytes = readFileSync(path);
  const end = 8 + Number(bytes.readBigUInt64LE());
  const header = Buffer.from(bytes.toString('utf8', 8, end).trimEnd().replace(`"${from}"`, `"${to}"`));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(path, Buffer.concat([length, header, bytes.subarray(end)]));
}

it('an error about a file is of a bounded length, whatever the file names things, and keeps its end', async () => {
  const folder = tinyModel();
  setConfig(folder, { architectures: ['Strange'.repeat(10_000)] });
  const error: unknown = await load(folder).catch((cause: unknown) => cause);
  const { message } = error instanceof ModelLoadError ? error : new Error();
  expect(message).toMatch(/^.*config\.json: architecture StrangeStrange.*… /);
  expect(message.endsWith('ModernBert, NomicBert, New, Gte')).toBe(true);
  expect(message.length).toBeLessThan(2000);
});

it.each([0, 1])('such an error has no half of a character at its cuts, the first one at %s', (shift) => {
  const { message } = new ModelLoadError('-'.repeat(shift) + '😀'.repeat(5000));
  expect(Buffer.from(message).toString()).toBe(message);
  const odd = new ModelLoadError('😀'.repeat(5000) + '-'.repeat(1 - shift)).message;
  expect(Buffer.from(odd).toString()).toBe(odd);
});
