// What a model is for, from its files and from options.

import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import { neededFiles } from '../../src/hub/needed-files.ts';
import { BY_FILES, type PoolingChoice } from '../../src/models/pooling/pooling-config.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { poolingFolder } from '../engine/pooling-models.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

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
      { 'modules.json': [step('Dense', '2_Dense')] },
      /modules\.json: the step "?Dense"? is not supported; supported are/,
    ],
    [{ 'modules.json': [step('Pooling', '5_Pooling')] }, /the files of Pooling must be in 1_Pooling, got/],
    [{ 'modules.json': {} }, /modules\.json: .*expected a list of objects/],
    [
      { '1_Pooling/config.json': { pooling_mode_max_tokens: true } },
      /exactly one kind of pooling must be chosen/,
    ],
    [{ '1_Pooling/config.json': {} }, /exactly one kind of pooling must be chosen.*got none/],
    [{ 'sentence_bert_config.json': { do_lower_case: true } }, /do_lower_case must be false/],
  ])('is refused where a file asks for what is not supported, case %#', (files, message) => {
    expect(() => read('bert-cls', files)).toThrow(ModelLoadError);
    expect(() => read('bert-cls', files)).toThrow(message);
  });

  it('is refused for a decoder that pools other tokens than the last', () => {
    const mean = { '1_Pooling/config.json': { pooling_mode_mean_tokens: true } };
    expect(() => read('qwen3-embedding', mean)).toThrow(/must pool the last token/);
  });
});

it('the files that say what a model is for are fetched with it', () => {
  const files = ['config.json', 'modules.json', 'sentence_bert_config.json', '1_Pooling/config.json'];
  const wanted = { repository: 'org/m', part: 'model', gguf: null } as const;
  const others = ['onnx/model.onnx', '2_Normalize/config.json', 'README.md'];
  expect(neededFiles([...files, ...others, 'model.safetensors'], wanted)).toEqual([
    ...files,
    'model.safetensors',
  ]);
});
