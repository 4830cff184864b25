// What a published embedding model wants before a text: chosen by name over HTTP and from a program, or by what a text is for.

import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LLM } from '../../src/index.ts';
import { embeddingCases, poolingFolder } from '../engine/pooling-models.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { bodyOf, errorOf, startTestServer, type TestServer } from './test-server.ts';

const newFolder = temporaryFolders();
const prompts = { query: 'what is: ', passage: 'text: ', all: 'x ' };

function folderWith(file: object): string {
  const folder = newFolder();
  cpSync(poolingFolder('bert-cls'), folder, { recursive: true });
  writeFileSync(join(folder, 'config_sentence_transformers.json'), JSON.stringify(file));
  return folder;
}

let plain: TestServer;
let prompted: TestServer;
beforeAll(async () => {
  [plain, prompted] = await Promise.all([
    startTestServer({ folder: poolingFolder('bert-cls') }),
    startTestServer({ folder: folderWith({ prompts, default_prompt_name: 'all' }) }),
  ]);
});
afterAll(() => Promise.all([plain, prompted].map((one) => one?.close())));

async function vector(server: TestServer, body: object): Promise<number[]> {
  return (await bodyOf(await server.post('/v1/embeddings', body))).data[0].embedding;
}

describe('a prompt of the model', () => {
  it.each([
    [{ prompt_name: 'query' }, 'what is: a cat'],
    [{ prompt_name: 'passage' }, 'text: a cat'],
    [{}, 'x a cat'],
    [{ prompt_name: null }, 'x a cat'],
    [{ prompt_name: '' }, 'a cat'],
  ])('is put before a text as %j asks for it', async (fields, text) => {
    expect(await vector(prompted, { input: 'a cat', ...fields })).toEqual(
      await vector(plain, { input: text }),
    );
  });

  it('is put before each text of a batch, and before no token ids', async () => {
    const { data } = await bodyOf(
      await prompted.post('/v1/embeddings', { input: ['a cat', 'a dog'], prompt_name: 'query' }),
    );
    expect(data[1].embedding).toEqual(await vector(plain, { input: 'what is: a dog' }));
    const input = embeddingCases('bert-cls')[0]!.ids;
    expect(await vector(prompted, { input })).toEqual(await vector(plain, { input }));
  });

  it('is refused by a name that the model does not have', async () => {
    const body = { input: 'a', prompt_name: 'document' };
    expect(await errorOf(await prompted.post('/v1/embeddings', body))).toMatchObject({
      status: 400,
      param: 'prompt_name',
      message: 'prompt_name must be query, passage, all, or empty for none, got "document"',
    });
    expect((await errorOf(await plain.post('/v1/embeddings', body))).message).toBe(
      'prompt_name must be left out: this model has no prompts, got "document"',
    );
  });

  it('follows from what a text is for, where it is ranked', async () => {
    const [query, documents] = ['cat', ['a dog', 'a cat']];
    const ranked = await bodyOf(await prompted.post('/rerank', { query, documents }));
    const scored = await bodyOf(
      await plain.post('/score', { text_1: 'what is: cat', text_2: ['text: a dog', 'text: a cat'] }),
    );
    const scores = scored.data.map(({ score }: { score: number }) => score);
    for (const { index, relevance_score } of ranked.results) expect(relevance_score).toBe(scores[index]);
    // Nothing says what the texts of a score are for.
    const both = await bodyOf(await prompted.post('/score', { text_1: 'cat', text_2: 'a dog' }));
    const same = await bodyOf(await plain.post('/score', { text_1: 'x cat', text_2: 'x a dog' }));
    expect(both.data).toEqual(same.data);
  });

  it('is chosen by promptName in a program', async () => {
    const llm = new LLM({ model: folderWith({ prompts }) });
    const texts = ['what is: a cat', 'a cat'];
    const outputs = [...(await llm.embed('a cat', { promptName: 'query' })), ...(await llm.embed('a cat'))];
    for (const [index, { outputs: of }] of outputs.entries())
      expect([...of.embedding]).toEqual(await vector(plain, { input: texts[index] }));
    await expect(llm.embed('a', { promptName: 'none' })).rejects.toThrow(
      /promptName must be query, passage, all/,
    );
    await llm.close();
  });
});
