// What a model is for, from its files and from options.

import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import { neededFiles } from '../../src/hub/needed-files.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { BY_FILES, type PoolingChoice } from '../../src/models/pooling/pooling-config.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { poolingFolder } from '../engine/pooling-models.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

/** Loads a copy of a golden model, changed. */
function load(name: string, change: (folder: string) => void, choice: Partial<PoolingChoice> = {}) {
  const folder = newFolder();
  cpSync(poolingFolder(name), folder, { recursive: true });
  change(folder);
  const options = { dtype: 'auto', maxModelLen: null, choice: { ...BY_FILES, ...choice } } as const;
  return loadModel(openModelSource(folder), new ReferenceOps(), options);
}

/** The config of a copy of a golden model with other files. */
function read(
  name: string,
  files: Readonly<Record<string, object>> = {},
  choice: Partial<PoolingChoice> = {},
) {
  const folder = newFolder();
  cpSync(poolingFolder(name), folder, { recursive: true });
  for (const [path, content] of Object.entries(files))
    writeFileSync(join(folder, path), JSON.stringify(content));
  return readModelConfig(new FolderFiles(folder), { ...BY_FILES, ...choice });
}

function configOf(name: string): object {
  return JSON.parse(readFileSync(join(poolingFolder(name), 'config.json'), 'utf8'));
}

const step = (type: string, path = '') => ({
  idx: 0,
  name: '',
  path,
  type: `sentence_transformers.models.${type}`,
});

describe('what a model is for', () => {
  it('is said by its architecture where it has no other files', () => {
    expect(read('roberta-bare').pooling).toMatchObject({ task: 'embed', rows: 'cls', isNormalized: true });
    expect(read('bert-reranker').pooling).toMatchObject({
      task: 'score',
      activation: 'none',
      prompt: 'pair',
    });
    expect(read('qwen3-reranker-seq-cls').pooling).toMatchObject({
      head: { kind: 'classifier' },
      prompt: 'qwen3',
    });
    expect(read('qwen3-reranker').pooling).toBeNull();
  });

  it('is said by modules.json of a decoder, and of one whose logits of two tokens are the score', () => {
    expect(read('qwen3-embedding').pooling).toMatchObject({ task: 'embed', rows: 'last', dimensions: 'any' });
    const files = {
      'modules.json': [step('Transformer'), step('Pooling', '1_Pooling'), step('Normalize')],
      '1_Pooling/config.json': { pooling_mode: 'lasttoken' },
    };
    expect(read('qwen3-embedding', files).pooling).toMatchObject({ rows: 'last', isNormalized: true });
  });

  it('is chosen by options where files leave it open', () => {
    expect(read('qwen3-reranker', {}, { runner: 'pooling' }).pooling).toMatchObject({
      task: 'embed',
      rows: 'last',
    });
    const { pooling } = read('qwen3-reranker', {}, { convert: 'classify' });
    expect(pooling).toMatchObject({ task: 'score', head: { kind: 'tokens', tokenIds: [262, 261] } });
    expect(read('qwen3-embedding', {}, { runner: 'generate' }).pooling).toBeNull();
    expect(() => read('bert-cls', {}, { runner: 'generate' })).toThrow(ConfigError);
  });

  it('limits texts to the length that the model was trained on', () => {
    expect(read('bert-mean').maxPositionEmbeddings).toBe(100);
    expect(read('bert-cls').maxPositionEmbeddings).toBe(128);
    expect(read('xlm-roberta-mean').maxPositionEmbeddings).toBe(128);
  });

  it.each([
    [
      { 'modules.json': [step('WordWeights', '2_WordWeights')] },
      /modules\.json: the step "?WordWeights"? is not supported; supported are Transformer, Pooling, Dense/,
    ],
    [
      { 'modules.json': [step('Transformer'), step('Dense', '1_Dense')] },
      /steps must be in the order Transformer, Pooling, Dense.*got Transformer, Dense/,
    ],
    [
      { 'modules.json': [step('Transformer'), step('Normalize'), step('Pooling', '1_Pooling')] },
      /steps must be in the order/,
    ],
    [
      { 'modules.json': [step('Pooling', '1_Pooling'), step('Pooling', '1_Pooling')] },
      /each once but for Dense/,
    ],
    [
      { 'modules.json': [step('Pooling', '1_Pooling'), step('Dense', '../2_Dense')] },
      /files of Dense must be in a folder like 2_Dense, got/,
    ],
    [
      { 'modules.json': [step('Pooling', '1_Pooling'), step('Dense', '2_Dense')] },
      /2_Dense\/config\.json is missing, and modules\.json names it/,
    ],
    [{ 'modules.json': [step('Pooling', '5_Pooling')] }, /the files of Pooling must be in 1_Pooling, got/],
    [{ 'modules.json': {} }, /modules\.json: .*expected a list of objects/],
    [
      { '1_Pooling/config.json': { pooling_mode_max_tokens: true } },
      /exactly one kind of pooling must be chosen/,
    ],
    [{ 'modules.json': new Array(101).fill(step('Dense', '2_Dense')) }, /modules\.json: .*at most 100/],
    [{ '1_Pooling/config.json': {} }, /exactly one kind of pooling must be chosen.*got none/],
    [{ 'sentence_bert_config.json': { do_lower_case: true } }, /do_lower_case must be false/],
    [
      { '1_Pooling/config.json': { pooling_mode: 'mean', include_prompt: false } },
      /1_Pooling\/config\.json: include_prompt must be true/,
    ],
    [
      { 'config_sentence_transformers.json': { prompts: { query: 'q' }, default_prompt_name: 'document' } },
      /config_sentence_transformers\.json: default_prompt_name must be one of prompts, got "document"/,
    ],
    [{ 'config_sentence_transformers.json': { prompts: { query: 3 } } }, /prompts\.query/],
  ])('is refused where a file asks for what is not supported, case %#', (files, message) => {
    expect(() => read('bert-cls', files)).toThrow(ModelLoadError);
    expect(() => read('bert-cls', files)).toThrow(message);
  });

  it.each([
    [{ in_features: 31 }, /2_Dense: in_features must be 32, the numbers of what comes before, got 31/],
    [{ out_features: 0 }, /out_features/],
    [
      { activation_function: 'torch.nn.modules.activation.Softplus' },
      /must be one of Identity, Tanh, ReLU, GELU, SiLU, got "?Softplus/,
    ],
  ])('is refused with a dense layer that does not fit: %o', (fields, message) => {
    const dense = { in_features: 32, out_features: 24 };
    expect(() => read('bert-dense', { '2_Dense/config.json': { ...dense, ...fields } })).toThrow(message);
  });

  it('brings its prompts along', () => {
    const prompts = { query: 'Question: ', document: '' };
    const files = { 'config_sentence_transformers.json': { prompts, default_prompt_name: 'query' } };
    expect(read('bert-cls', files).pooling).toMatchObject({
      prompts: { texts: new Map(Object.entries(prompts)), defaultName: 'query' },
    });
  });

  it('makes vectors as long as its last dense layer', () => {
    expect(read('bert-dense').pooling).toMatchObject({ size: 24, dense: [{ activation: 'tanh' }] });
    expect(read('embedding-gemma').pooling).toMatchObject({ size: 32, dimensions: [8, 16], rows: 'mean' });
  });

  it('is refused for a decoder whose tokens see those after them, whatever it is to be served as', () => {
    for (const runner of ['auto', 'generate', 'pooling'] as const) {
      for (const field of [{ use_bidirectional_attention: true }, { is_causal: false }]) {
        const config = { 'config.json': { ...configOf('qwen3-reranker'), ...field } };
        expect(() => read('qwen3-reranker', config, { runner })).toThrow(/see those after them/);
      }
    }
    expect(() => read('embedding-gemma', {}, { runner: 'generate' })).toThrow(ConfigError);
  });

  it('is refused for a ModernBERT of another form than the published ones', () => {
    for (const field of [{ norm_bias: true }, { classifier_bias: true }, { classifier_activation: 'silu' }]) {
      const config = { 'config.json': { ...configOf('modernbert-cls'), ...field } };
      expect(() => read('modernbert-cls', config)).toThrow(
        /other forms of ModernBertModel are not supported/,
      );
    }
  });

  it('is refused for a decoder that pools other tokens than the last', () => {
    const mean = { '1_Pooling/config.json': { pooling_mode_mean_tokens: true } };
    expect(() => read('qwen3-embedding', mean)).toThrow(/must pool the last token/);
  });
});

describe('a pooling model', () => {
  it('is refused without the weights of a dense layer, and with weights of another shape', async () => {
    const remove = (folder: string) => rmSync(join(folder, '2_Dense/model.safetensors'));
    await expect(load('bert-dense', remove)).rejects.toThrow(/2_Dense\/model\.safetensors is missing/);
    const widen = (folder: string) =>
      writeFileSync(
        join(folder, '2_Dense/config.json'),
        JSON.stringify({ in_features: 32, out_features: 25 }),
      );
    await expect(load('bert-dense', widen)).rejects.toThrow(
      /tensor 2_Dense\.linear\.weight must be \[25, 32\] by config\.json, it is \[24, 32\]/,
    );
  });
});

it('the files that say what a model is for are fetched with it', () => {
  const files = [
    'config.json',
    'modules.json',
    'sentence_bert_config.json',
    'config_sentence_transformers.json',
    '1_Pooling/config.json',
    '2_Dense/config.json',
    '3_Dense/config.json',
  ];
  const weights = ['model.safetensors', '2_Dense/model.safetensors', '3_Dense/model.safetensors'];
  const wanted = { repository: 'org/m', part: 'model', gguf: null } as const;
  const others = [
    'onnx/model.onnx',
    '4_Normalize/config.json',
    '2_Dense/pytorch_model.bin',
    'old/2_Dense/config.json',
    'README.md',
  ];
  expect(neededFiles([...files, ...others, ...weights], wanted)).toEqual([...files, ...weights]);
  expect(neededFiles([...files, ...others, ...weights], { ...wanted, part: 'config' })).toEqual(files);
  expect(() => neededFiles([...files, ...others, ...weights.slice(0, 2)], wanted)).toThrow(
    'org/m has no 3_Dense/model.safetensors: the weights of a dense layer are read from it, and from no other format',
  );
});
