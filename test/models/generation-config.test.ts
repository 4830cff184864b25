import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import { readGenerationConfig } from '../../src/models/generation-config.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();
const AUTO = { source: 'auto', override: null };

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
      suppress_tokens: [7, 8],
      do_sample: false,
    });
    expect(readGenerationConfig(new FolderFiles(folder), AUTO)).toEqual({
      sampling: { temperature: 0.6, top_p: 0.9, top_k: 20, min_p: 0.05, max_tokens: 64 },
      eosTokenIds: [1, 2],
      suppressedTokenIds: [7, 8],
      maxOutputTokens: null,
    });
  });

  it('passes over values that are the defaults of the library that wrote the file', () => {
    const folder = folderWith({ temperature: 1.0, top_p: 1.0, top_k: 50, min_p: 0, eos_token_id: 2 });
    expect(readGenerationConfig(new FolderFiles(folder), AUTO).sampling).toEqual({});
  });

  it('takes only the end and suppressed tokens with svc', () => {
    const folder = folderWith({ temperature: 0.6, eos_token_id: 5, suppress_tokens: [7] });
    expect(readGenerationConfig(new FolderFiles(folder), { source: 'svc', override: null })).toEqual({
      sampling: {},
      eosTokenIds: [5],
      suppressedTokenIds: [7],
      maxOutputTokens: null,
    });
  });

  it('reads from the folder that the user names, and from no other', () => {
    const named = folderWith({ top_k: 3 });
    const model = folderWith({ temperature: 0.6 });
    expect(readGenerationConfig(new FolderFiles(model), { source: named, override: null }).sampling).toEqual({
      top_k: 3,
    });
    const missing = newFolder();
    expect(() => readGenerationConfig(new FolderFiles(model), { source: missing, override: null })).toThrow(
      ConfigError,
    );
    expect(() => readGenerationConfig(new FolderFiles(model), { source: missing, override: null })).toThrow(
      `--generation-config ${missing}`,
    );
  });

  it('is content without a file of the model', () => {
    expect(readGenerationConfig(new FolderFiles(newFolder()), AUTO)).toEqual({
      sampling: {},
      eosTokenIds: [],
      suppressedTokenIds: [],
      maxOutputTokens: null,
    });
  });

  it('takes the repetition penalty of the model', () => {
    expect(
      readGenerationConfig(new FolderFiles(folderWith({ repetition_penalty: 1.05 })), AUTO).sampling,
    ).toEqual({
      repetition_penalty: 1.05,
    });
    expect(
      readGenerationConfig(new FolderFiles(folderWith({ repetition_penalty: 1 })), AUTO).sampling,
    ).toEqual({});
  });

  it('limits every answer by a max_new_tokens of the user, not by one of the model', () => {
    const folder = folderWith({ max_new_tokens: 7 });
    expect(readGenerationConfig(new FolderFiles(folder), AUTO).maxOutputTokens).toBeNull();
    expect(
      readGenerationConfig(new FolderFiles(newFolder()), { source: folder, override: null }),
    ).toMatchObject({
      sampling: { max_tokens: 7 },
      maxOutputTokens: 7,
    });
    expect(
      readGenerationConfig(new FolderFiles(folder), { source: 'svc', override: { max_new_tokens: 3 } }),
    ).toMatchObject({
      sampling: { max_tokens: 3 },
      maxOutputTokens: 3,
    });
  });

  it('says which field of an override it does not know, and which was meant', () => {
    const options = { source: 'auto', override: { temperatur: 0.2 } };
    expect(() => readGenerationConfig(new FolderFiles(newFolder()), options)).toThrow(ConfigError);
    expect(() => readGenerationConfig(new FolderFiles(newFolder()), options)).toThrow(
      '--override-generation-config: unknown field temperatur; did you mean temperature?; its fields are temperature,',
    );
  });

  it('lets an override win over the file, over svc, and take a default away', () => {
    const folder = folderWith({ temperature: 0.6, top_p: 0.9 });
    const override = { temperature: 0.2, top_p: null, top_k: 50 };
    const options = { source: 'auto', override };
    expect(readGenerationConfig(new FolderFiles(folder), options).sampling).toEqual({
      temperature: 0.2,
      top_k: 50,
    });
    expect(readGenerationConfig(new FolderFiles(folder), { source: 'svc', override }).sampling).toEqual({
      temperature: 0.2,
      top_k: 50,
    });
  });

  it.each([
    [{ temperature: 'hot' }, /--override-generation-config: temperature/],
    [{ temprature: 1 }, /--override-generation-config: .*temprature.*its fields are temperature/],
  ])('refuses the override %j', (override, message) => {
    const attempt = () => readGenerationConfig(new FolderFiles(newFolder()), { source: 'auto', override });
    expect(attempt).toThrow(ConfigError);
    expect(attempt).toThrow(message);
  });

  it.each([
    [{ temperature: -1 }, /generation_config\.json: temperature must be at least 0, got -1/],
    [{ top_p: 2 }, /top_p must be at most 1, got 2/],
    [{ top_k: 'many' }, /top_k must be a number, got "many"/],
    [{ eos_token_id: 'x' }, /eos_token_id/],
    [{ suppress_tokens: 'x' }, /suppress_tokens/],
    ['{"top_p": 0.8\n"top_k": 1}', /generation_config\.json is not valid JSON/],
  ])('refuses %j', (content, message) => {
    const folder = folderWith(content);
    expect(() => readGenerationConfig(new FolderFiles(folder), AUTO)).toThrow(ModelLoadError);
    expect(() => readGenerationConfig(new FolderFiles(folder), AUTO)).toThrow(message);
  });

  const malformed = sharedFixture('configs/Qwen1.5-MoE-8x0.5B/generation_config.malformed.json');
  it('names a published file that is malformed', needsShared(malformed), () => {
    const folder = folderWith({});
    copyFileSync(malformed!, join(folder, 'generation_config.json'));
    expect(() => readGenerationConfig(new FolderFiles(folder), AUTO)).toThrow(ModelLoadError);
    expect(() => readGenerationConfig(new FolderFiles(folder), AUTO)).toThrow(
      `${folder}/generation_config.json is not valid JSON`,
    );
  });
});
