// A model folder as a source: what it gives, and what it refuses.

import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { readWeightIndex } from '../../src/util/model-files.ts';
import { type TinyModelOptions, writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

function tinyModel(options: TinyModelOptions = {}): string {
  const folder = newFolder();
  writeTinyModel(folder, options);
  return folder;
}

describe('a model source', () => {
  it('gives the texts of a folder by name, with their paths, and null for those that are not there', () => {
    const folder = tinyModel();
    const source = openModelSource(folder);
    const path = join(folder, 'config.json');
    expect(source.read('config.json')).toEqual({ path, text: readFileSync(path, 'utf8') });
    expect(source.read('chat_template.jinja')).toBeNull();
  });

  it('gives the tensors of one file, or of all that an index names', () => {
    const whole = openModelSource(tinyModel()).openCheckpoint();
    const sharded = openModelSource(tinyModel({ shards: 3 })).openCheckpoint();
    expect(sharded.names).toEqual(whole.names);
    const { dtype, shape, start, storedShape } = sharded.find('model.norm.weight', [64]);
    expect({ dtype, shape, start, storedShape }).toEqual({
      dtype: 'f32',
      shape: [64],
      start: [0],
      storedShape: [64],
    });
  });

  it('gives the same tensors however the path of its folder is spelled', () => {
    const folder = tinyModel();
    const names = openModelSource(folder).openCheckpoint().names;
    for (const path of [
      `${folder}/`,
      relative('.', folder),
      `./${relative('.', folder)}`,
      `${folder}/../${basename(folder)}`,
    ])
      expect(openModelSource(path).openCheckpoint().names).toEqual(names);
  });

  it('takes no blocks of GGUF from safetensors, where nobody has checked their sizes', () => {
    const folder = tinyModel();
    const header = JSON.stringify({ w: { dtype: 'Q8_0', shape: [1, 32], data_offsets: [0, 3] } });
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    const path = join(folder, 'model.safetensors');
    writeFileSync(path, Buffer.concat([length, Buffer.from(header), Buffer.alloc(3)]));
    const checkpoint = openModelSource(folder).openCheckpoint();
    expect(checkpoint.dtypeOf('w')).toBeNull();
    expect(() => checkpoint.find('w', [1, 32])).toThrow(ModelLoadError);
    expect(() => checkpoint.find('w', [1, 32])).toThrow(
      /tensor w \[1, 32\] must be F32, F16 or BF16, it is Q8_0/,
    );
  });

  it('has the fingerprint of what it computes: the same for a copy, another for other weights or another config', () => {
    const folder = tinyModel();
    const print = openModelSource(folder).fingerprint();
    expect(print).toMatch(/^[0-9a-f]{64}$/);
    const copy = newFolder();
    mkdirSync(copy);
    for (const file of readdirSync(folder)) copyFileSync(join(folder, file), join(copy, file));
    expect(openModelSource(copy).fingerprint()).toBe(print);
    writeFileSync(join(copy, 'config.json'), `${readFileSync(join(folder, 'config.json'), 'utf8')}\n`);
    expect(openModelSource(copy).fingerprint()).not.toBe(print);
    expect(openModelSource(tinyModel({ seed: 1 })).fingerprint()).not.toBe(print);
    expect(openModelSource(tinyModel({ shards: 2 })).fingerprint()).not.toBe(print);
  });

  it('is not a file, and not a path where there is nothing', () => {
    const file = join(tinyModel(), 'config.json');
    expect(() => openModelSource(file)).toThrow(ModelLoadError);
    expect(() => openModelSource(file)).toThrow(
      `${file} is a file: expected the folder that holds config.json`,
    );
    expect(() => openModelSource('/nowhere')).toThrow(
      '/nowhere is no folder: expected the folder that holds',
    );
  });
});

describe('the index of a sharded checkpoint', () => {
  it('names each file once, in order', () => {
    expect(readWeightIndex(tinyModel({ shards: 2 }))).toEqual([
      'model-00001-of-00002.safetensors',
      'model-00002-of-00002.safetensors',
    ]);
    expect(readWeightIndex(tinyModel())).toBeNull();
  });
});
