// Images that a program gives: what a model that reads only text says of them, and how prompts hold them.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LLM } from '../../src/index.ts';
import { readConversations } from '../../src/llm/conversations.ts';
import { readPrompts } from '../../src/llm/prompts.ts';

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
