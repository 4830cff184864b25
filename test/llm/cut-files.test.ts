import { readdirSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { LLM } from '../../src/index.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

it('a model whose files are cut short while it is served answers as before', needsNative, async () => {
  const [model, packedCache] = [newFolder(), newFolder()];
  writeTinyModel(model, { seed: 3, shards: 2, dtype: 'bf16' });
  const cut = (folder: string) => {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (entry.isFile()) truncateSync(join(entry.parentPath, entry.name), 3);
    }
  };
  const prompt = 'The engine reads a model, and then its files are gone. '.repeat(5);
  const answer = async (llm: LLM) => {
    const [output] = await llm.generate(prompt, { temperature: 0, max_tokens: 12, ignore_eos: true });
    return output?.outputs[0]?.token_ids;
  };
  const plain = new LLM({ model, device: 'cpu' });
  const packing = new LLM({ model, device: 'cpu', packedCache });
  try {
    const before = await answer(plain);
    expect(await answer(packing)).toEqual(before);
    cut(model);
    expect(await answer(plain)).toEqual(before);
    expect(await answer(packing)).toEqual(before);
  } finally {
    await Promise.all([plain.close(), packing.close()]);
  }
});
