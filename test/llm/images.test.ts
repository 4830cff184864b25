// Images that a program gives: what a model that reads only text says of them, how prompts hold them, and what a model sees.

import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type FilePart, generateText, type ImagePart } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { languageModel } from '../../src/ai-sdk/models.ts';
import { LLM } from '../../src/index.ts';
import { readConversations } from '../../src/llm/conversations.ts';
import { readPrompts } from '../../src/llm/prompts.ts';
import { tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const CAT = new Uint8Array([1, 2, 3]);
const SHOWN = [{ type: 'image_url', image_url: { url: 'file:///cat.png' } }] as const;

let llm: LLM;
beforeAll(() => {
  llm = new LLM({ limitMmPerPrompt: { image: 2 }, kvCacheMemoryBytes: 2 ** 24 });
});
afterAll(() => llm.close());

describe('a model that reads only text', () => {
  it('refuses images beside a prompt', async () => {
    const images = [CAT];
    await expect(llm.generate(['a', { prompt: 'b', images }])).rejects.toThrow(
      'prompts[1] must have no images, because this model reads only text, got 1',
    );
    expect(await llm.generate({ prompt: 'a', images: [] }, { max_tokens: 1 })).toHaveLength(1);
  });

  it('refuses images in a conversation', async () => {
    const messages = [{ role: 'user', content: SHOWN }];
    await expect(llm.chat([messages])).rejects.toThrow(
      'messages[0][0].content[0] is of type "image_url", and this model reads only text: send parts of type "text"',
    );
  });
});

describe('of a model that sees', () => {
  it('prompts may have images, as bytes and so many', () => {
    expect(readPrompts({ prompt: 'a', images: [CAT, CAT] }, 2)).toEqual([{ text: 'a', images: [CAT, CAT] }]);
    expect(() => readPrompts(['a', { prompt: 'a', images: [CAT, CAT] }], 1)).toThrow(
      'prompts[1] must have at most 1 images (--limit-mm-per-prompt), got 2',
    );
    const named: unknown = { prompt: 'a', images: ['cat.png'] };
    expect(() => readPrompts(named as { prompt: string }, 2)).toThrow(
      'prompts[0].images must be a list of the bytes of image files',
    );
    const ofTokens: unknown = { prompt_token_ids: [1], images: [CAT] };
    expect(() => readPrompts(ofTokens as { prompt: string }, 2)).toThrow(
      /has images beside prompt_token_ids/,
    );
  });

  it('conversations may have images, so many each', () => {
    const messages = [{ role: 'user', content: SHOWN }];
    const [first, second] = readConversations([messages, messages], 1);
    expect(first?.images).toMatchObject([{ url: 'file:///cat.png', path: 'messages[0][0].content[0]' }]);
    expect(second?.images).toHaveLength(1);
    expect(() => readConversations([...messages, ...messages], 1)).toThrow(
      /^messages must have at most 1 images/,
    );
  });
});

describe('a model that sees', () => {
  const newFolder = temporaryFolders();
  const quietly = { useProgressBar: false };
  let seeing: LLM;
  let pictures: Uint8Array[];
  let file: string;
  beforeAll(async () => {
    const folder = newFolder();
    writeTinyVisionModel(folder);
    pictures = await Promise.all([1, 2].map((seed) => tinyPicture(seed)));
    file = join(folder, 'picture.png');
    writeFileSync(file, pictures[0]!);
    seeing = new LLM({ model: folder, allowedMediaDomains: ['127.0.0.1'], kvCacheMemoryBytes: 2 ** 24 });
  });
  afterAll(() => seeing.close());

  it('finds other beams of another image', async () => {
    const prompts = [0, 1, 0].map((which) => ({ prompt: 'a <image> b', images: [pictures[which]!] }));
    const found = await seeing.beamSearch(prompts, { beam_width: 2, max_tokens: 4 });
    const [first, second, again] = found.map((beams) =>
      beams.sequences.map(({ cum_logprob }) => cum_logprob),
    );
    expect(again).toEqual(first);
    expect(second).not.toEqual(first);
  });

  it('is told once where an image of several conversations cannot be had', async () => {
    const [good, bad] = [file, `${file}-not`].map((path) => [
      { role: 'user', content: [{ type: 'image_url' as const, image_url: pathToFileURL(path).href }] },
    ]);
    await expect(seeing.chat([good!, bad!], null, quietly)).rejects.toThrow(
      /^messages\[1\]\[0\]\.content\[0\]: file:.* cannot be read/,
    );
  });

  it('gets the images of the ai SDK, in each of their forms', async () => {
    const asked: string[] = [];
    const web = createServer(({ url = '' }, response) => {
      asked.push(url);
      response.end(pictures[0]);
    });
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
    const url = new URL(`http://127.0.0.1:${(web.address() as AddressInfo).port}/picture`);
    const answer = async (part: FilePart | ImagePart) => {
      const messages = [{ role: 'user' as const, content: [part, { type: 'text' as const, text: 'look' }] }];
      const settings = { temperature: 1, seed: 1, maxOutputTokens: 32, maxRetries: 0 };
      const { text, usage } = await generateText({ ...settings, messages, model: languageModel(seeing) });
      return { text, inputTokens: usage.inputTokens };
    };
    const [first, second] = pictures as [Uint8Array, Uint8Array];
    const expected = await answer({ type: 'image', image: first });
    const encoded = Buffer.from(first).toString('base64');
    expect(await answer({ type: 'file', mediaType: 'image/png', data: encoded })).toEqual(expected);
    expect(await answer({ type: 'image', image: url })).toEqual(expected);
    expect(asked).toEqual(['/picture']);
    expect((await answer({ type: 'image', image: second })).text).not.toBe(expected.text);
    await expect(answer({ type: 'file', mediaType: 'audio/wav', data: encoded })).rejects.toThrow(
      'messages must be texts, and images of users: this model reads no audio/wav',
    );
    web.closeAllConnections();
    web.close();
  });
});
