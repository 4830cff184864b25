// Adapters of a program: loaded with the model or when a call first names them.

import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InvalidRequestError, LLM } from '../../src/index.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();
const GREEDY = { temperature: 0, max_tokens: 8, ignore_eos: true };
const PROMPT = 'Once upon a time';

let red: string;
let green: string;
let llm: LLM;
beforeAll(() => {
  const folder = newFolder();
  writeTinyModel(join(folder, 'model'), { seed: 3 });
  red = join(folder, 'red');
  green = join(folder, 'green');
  writeTinyAdapter(red, { seed: 1 });
  writeTinyAdapter(green, { seed: 2 });
  llm = new LLM({ model: join(folder, 'model'), loraModules: [`red=${red}`], maxLoras: 2 });
});
afterAll(() => llm.close());

const textsOf = async (...call: Parameters<LLM['generate']>): Promise<string[]> =>
  (await llm.generate(...call)).map(({ outputs }) => outputs[0]!.text);

describe('the option adapter', () => {
  it('names the adapter of all prompts, or of each', async () => {
    const [plain] = await textsOf(PROMPT, GREEDY);
    const [adapted] = await textsOf(PROMPT, GREEDY, { adapter: 'red' });
    expect(adapted).not.toBe(plain);
    const mixed = await textsOf([PROMPT, PROMPT, PROMPT], GREEDY, { adapter: [null, 'red', null] });
    expect(mixed).toEqual([plain, adapted, plain]);
  });

  it('loads an adapter when it is first named, once', async () => {
    const adapter = { name: 'green', path: green };
    const texts = await Promise.all([1, 2, 3].map(() => textsOf(PROMPT, GREEDY, { adapter })));
    expect(new Set(texts.flat()).size).toBe(1);
    expect(await textsOf(PROMPT, GREEDY, { adapter: 'green' })).toEqual(texts[0]);
    expect(texts[0]).not.toEqual(await textsOf(PROMPT, GREEDY, { adapter: 'red' }));
  });

  it('is taken by streams, chats and beam search', async () => {
    const [expected] = await textsOf(PROMPT, GREEDY, { adapter: 'red' });
    let text = '';
    for await (const delta of llm.stream(PROMPT, GREEDY, { adapter: 'red' })) text += delta.text;
    expect(text).toBe(expected);
    const chat = [{ role: 'user', content: PROMPT }];
    const [own, plain] = await Promise.all(
      ['red', null].map(async (adapter) => (await llm.chat(chat, GREEDY, { adapter }))[0]!.outputs[0]!.text),
    );
    expect(own).not.toBe(plain);
    let streamed = '';
    for await (const delta of llm.streamChat(chat, GREEDY, { adapter: 'red' })) streamed += delta.text;
    expect(streamed).toBe(own);
    const search = { beam_width: 2, max_tokens: 3 };
    const beams = await Promise.all(
      ['red', null].map((adapter) => llm.beamSearch(PROMPT, search, { adapter })),
    );
    expect(beams[0]).not.toEqual(beams[1]);
  });

  it('is refused where nobody has that adapter, or there are as many adapters as nothing else', async () => {
    await expect(llm.generate(PROMPT, GREEDY, { adapter: 'blue' })).rejects.toThrow(InvalidRequestError);
    await expect(llm.generate(PROMPT, GREEDY, { adapter: 'blue' })).rejects.toThrow(
      /no adapter is called blue/,
    );
    await expect(llm.generate([PROMPT], GREEDY, { adapter: ['red', 'red'] })).rejects.toThrow(
      /there are 1 prompts and 2 adapters/,
    );
    const moved = { name: 'red', path: green };
    await expect(llm.generate(PROMPT, GREEDY, { adapter: moved })).rejects.toThrow(/red is loaded already/);
    const third = { name: 'blue', path: red };
    await llm.generate(PROMPT, GREEDY, { adapter: { name: 'green', path: green } });
    await expect(llm.generate(PROMPT, GREEDY, { adapter: third })).rejects.toThrow(/maxLoras allows 2/);
  });
});
