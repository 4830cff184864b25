import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../../src/errors.ts';
import { readGenerationConfig } from '../../../src/models/generation-config.ts';
import { sharedFixture } from '../../helpers/fixtures.ts';
import { temporaryFolders } from '../../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

function folderWith(content: unknown): string {
  const folder = newFolder();
  mkdirSync(folder);
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(join(folder, 'generation_config.json'), text);
  return folder;
}

describe('readGenerationConfig', () => {
  it('takes sampling defaults and end tokens from the model', () => {
    const folder = folderWith({
      temperature: 0.6,
      top_p: 0.9,
      top_k: 20,
      min_p: 0.05,
      max_new_tokens: 64,
      eos_token_id: [1, 2],
      do_sample: false,
    });
    expect(readGenerationConfig(folder, 'auto')).toEqual({
      sampling: { temperature: 0.6, top_p: 0.9, top_k: 20, min_p: 0.05, max_tokens: 64 },
      eosTokenIds: [1, 2],
      notApplied: [],
    });
  });

  it('passes over values that are the defaults of the library that wrote the file', () => {
    const folder = folderWith({ temperature: 1.0, top_p: 1.0, top_k: 50, min_p: 0, eos_token_id: 2 });
    expect(readGenerationConfig(folder, 'auto').sampling).toEqual({});
  });

  it('takes only the end tokens with svc', () => {
    const folder = folderWith({ temperature: 0.6, eos_token_id: 5 });
    expect(readGenerationConfig(folder, 'svc')).toEqual({ sampling: {}, eosTokenIds: [5], notApplied: [] });
  });

  it('reads from the folder that the user names, and from no other', () => {
    const named = folderWith({ top_k: 3 });
    const model = folderWith({ temperature: 0.6 });
    expect(readGenerationConfig(model, named).sampling).toEqual({ top_k: 3 });
    const missing = newFolder();
    expect(() => readGenerationConfig(model, missing)).toThrow(ConfigError);
    expect(() => readGenerationConfig(model, missing)).toThrow(`--generation-config ${missing}`);
  });

  it('is content without a file of the model', () => {
    expect(readGenerationConfig(newFolder(), 'auto')).toEqual({
      sampling: {},
      eosTokenIds: [],
      notApplied: [],
    });
  });

  it('tells of a repetition penalty that it cannot apply', () => {
    expect(readGenerationConfig(folderWith({ repetition_penalty: 1.05 }), 'auto').notApplied).toEqual([
      'repetition_penalty 1.05',
    ]);
    expect(readGenerationConfig(folderWith({ repetition_penalty: 1 }), 'auto').notApplied).toEqual([]);
  });

  it.each([
    [{ temperature: -1 }, /generation_config\.json: temperature: .*>=0/],
    [{ top_p: 2 }, /top_p: .*<=1/],
    [{ top_k: 'many' }, /top_k: .*expected number, received string/],
    [{ eos_token_id: 'x' }, /eos_token_id/],
    ['{"top_p": 0.8\n"top_k": 1}', /generation_config\.json is not valid JSON/],
  ])('refuses %j', (content, message) => {
    const folder = folderWith(content);
    expect(() => readGenerationConfig(folder, 'auto')).toThrow(ModelLoadError);
    expect(() => readGenerationConfig(folder, 'auto')).toThrow(message);
  });

  const malformed = sharedFixture('configs/Qwen1.5-MoE-8x0.5B/generation_config.malformed.json');
  it.skipIf(malformed === null)('names a published file that is malformed (needs ../shared/fixtures)', () => {
    const folder = folderWith({});
    copyFileSync(malformed!, join(folder, 'generation_config.json'));
    expect(() => readGenerationConfig(folder, 'auto')).toThrow(ModelLoadError);
    expect(() => readGenerationConfig(folder, 'auto')).toThrow(
      `${folder}/generation_config.json is not valid JSON`,
    );
  });
});
