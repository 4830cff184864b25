// Images on their way from a request to the model, in each protocol.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import sharp from 'sharp';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TINY_TILE_TOKENS, tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { RawClient, rawPost } from '../helpers/raw-client.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';
import { bodyOf, errorOf, isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

/** Writes images for users and tools. */
const TEMPLATE =
  "{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% elif m.role != 'assistant' %}<image>{% endif %}{% endfor %}{% endif %}{% endfor %}";
const cat = await tinyPicture(1);
const DATA = dataUrl(cat);

let asked: string[] = [];
const web = createServer(({ url }, response) => {
  asked.push(url ?? '');
  if (url === '/cat.png') response.end(cat);
  else if (url !== '/silent') response.writeHead(404).end();
});

const newFolder = temporaryFolders();
let svc: TestServer;
let blind: TestServer;
let unwilling: TestServer;
beforeAll(async () => {
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  const engine = { chatTemplate: TEMPLATE, allowedMediaDomains: ['127.0.0.1'], maxImages: 3 };
  const folder = newFolder();
  writeTinyVisionModel(folder);
  svc = await startTestServer({ folder, engine });
  [blind, unwilling] = await Promise.all([
    startTestServer({ engine }),
    startTestServer({ folder, engine: { ...engine, maxImages: 0 } }),
  ]);
});
afterAll(async () => {
  web.closeAllConnections();
  web.close();
  await svc.close();
  await Promise.all([blind.close(), unwilling.close()]);
});
beforeEach(() => {
  asked = [];
});

const webUrl = (path: string): string => `http://127.0.0.1:${(web.address() as AddressInfo).port}${path}`;
const chatPart = (url: string) => ({ type: 'image_url' as const, image_url: { url } });
const chatOf = (...urls: string[]) => [{ role: 'user' as const, content: urls.map(chatPart) }];
const responsePart = (image_url: string) => ({
  type: 'input_image' as const,
  image_url,
  detail: 'auto' as const,
});
const responseOf = (...urls: string[]) => [{ role: 'user' as const, content: urls.map(responsePart) }];
const block = (url: string): Anthropic.ImageBlockParam => ({ type: 'image', source: { type: 'url', url } });
const OWN: Anthropic.ImageBlockParam = {
  type: 'image',
  source: { type: 'base64', media_type: 'image/png', data: DATA.slice(DATA.indexOf(',') + 1) },
};

describe('an image is fetched for', () => {
  it('a chat', async () => {
    const messages = chatOf(webUrl('/cat.png?1'), DATA, webUrl('/cat.png'));
    await expect(
      svc.client.chat.completions.create({ model: MODEL, messages, max_tokens: 2 }),
    ).rejects.toThrow(/messages\[0\]\.content\[0\]: .* status 404/);
    const rest = [{ role: 'user' as const, content: messages[0]!.content.slice(1) }];
    const answer = await svc.client.chat.completions.create({ model: MODEL, messages: rest, max_tokens: 2 });
    expect(answer.choices).toHaveLength(1);
    expect(asked).toEqual(['/cat.png?1', '/cat.png', '/cat.png']);
  });

  it('a response, and again for the next that goes on with it', async () => {
    const request = { model: MODEL, max_output_tokens: 16 };
    const input = responseOf(webUrl('/cat.png'));
    const { id } = await svc.client.responses.create({ ...request, input });
    const { data } = await svc.client.responses.inputItems.list(id);
    expect(data[0]).toMatchObject({ content: [{ ...input[0]!.content[0], file_id: null }] });
    await svc.client.responses.create({ ...request, input: 'and now?', previous_response_id: id });
    const output = responseOf(DATA)[0]!.content;
    const result = { type: 'function_call_output' as const, call_id: 'c1', output };
    await svc.client.responses.create({ ...request, input: [result] });
    expect(asked).toEqual(['/cat.png', '/cat.png']);
  });

  it('a message, and for what a tool gave', async () => {
    const client = new Anthropic({ baseURL: svc.url, apiKey: 'none', maxRetries: 0 });
    const result = { type: 'tool_result' as const, tool_use_id: 'c1', content: [block(webUrl('/cat.png'))] };
    const messages = [{ role: 'user' as const, content: [OWN, result, block(webUrl('/cat.png'))] }];
    const request = { model: MODEL, messages };
    expect(await client.messages.create({ ...request, max_tokens: 2 })).toMatchObject({ role: 'assistant' });
    expect((await client.messages.countTokens(request)).input_tokens).toBeGreaterThan(0);
    expect(asked).toHaveLength(4);
  });

  it('a count of tokens', async () => {
    const { tokens } = await bodyOf(await svc.post('/tokenize', { messages: chatOf(webUrl('/cat.png')) }));
    const { token_ids } = await bodyOf(
      await svc.post('/v1/chat/completions/render', { messages: chatOf(webUrl('/cat.png')) }),
    );
    expect(tokens).toEqual(token_ids);
    expect(asked).toEqual(['/cat.png', '/cat.png']);
  });
});

describe('a part is named where its image cannot be had', () => {
  const OTHER = { role: 'user', content: 'look' };

  it.each<[string, object, RegExp]>([
    [
      '/v1/chat/completions',
      { messages: [OTHER, ...chatOf(DATA, 'a cat')] },
      /^messages\[1\]\.content\[1\]: /,
    ],
    ['/tokenize', { messages: chatOf('data:,') }, /^messages\[0\]\.content\[0\]: a data: URL must begin/],
    ['/v1/responses', { input: [OTHER, ...responseOf(DATA, 'a cat')] }, /^input\[1\]\.content\[1\]: /],
    [
      '/v1/responses',
      { input: [{ type: 'function_call_output', call_id: 'c', output: responseOf('x')[0]!.content }] },
      /^input\[0\]\.output\[0\]: /,
    ],
    [
      '/v1/responses',
      { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'file_1' }] }] },
      /input\[0\]\.content\[0\]\.file_id is not served/,
    ],
  ])('%s %#', async (path, body, message) => {
    const { status, ...error } = await errorOf(await svc.post(path, body));
    expect(status).toBe(400);
    expect(error.param).toBe(path === '/v1/responses' ? 'input' : 'messages');
    expect(error.message).toMatch(message);
  });

  it.each<[unknown[], RegExp]>([
    [
      [{ type: 'text', text: 'look' }, block('a cat')],
      /^messages\[0\]\.content\[1\]: the URL of an image must be/,
    ],
    [
      [{ type: 'tool_result', tool_use_id: 'c', content: [block('a cat')] }],
      /^messages\[0\]\.content\[0\]\.content\[0\]: /,
    ],
    [
      [{ ...OWN, source: { ...OWN.source, data: '!' } }],
      /^messages\[0\]\.content\[0\]: the data of an image must be/,
    ],
    [
      [{ ...OWN, source: { ...OWN.source, media_type: 'text/plain' } }],
      /source\.media_type must be a type of images, .* got "text\/plain"/,
    ],
    [
      [{ type: 'image', source: { type: 'file', file_id: 'file_1' } }],
      /source\.type must be "base64" or "url": this server keeps no files/,
    ],
    [[{ type: 'document' }], /type must be "text", "image" or "tool_result"/],
  ])('/v1/messages %#', async (content, message) => {
    const body = { max_tokens: 2, messages: [{ role: 'user', content }] };
    const { error } = await bodyOf(await svc.post('/v1/messages', body));
    expect(error.message).toMatch(message);
  });
});

describe('a request is refused', () => {
  const refusal = async (server: TestServer, path: string, body: object) => {
    const { error } = await bodyOf(await server.post(path, body));
    expect(error).toBeDefined();
    return error.message;
  };

  it('with more images than a prompt may have', async () => {
    const urls = [DATA, DATA, DATA, DATA];
    expect(await refusal(svc, '/v1/chat/completions', { messages: chatOf(...urls) })).toBe(
      'messages must have at most 3 images (--limit-mm-per-prompt), got 4',
    );
    expect(await refusal(svc, '/v1/responses', { input: responseOf(...urls) })).toBe(
      'input must have at most 3 images (--limit-mm-per-prompt), got 4',
    );
  });

  it('where none may come, though the model could see it', async () => {
    expect(await refusal(unwilling, '/v1/chat/completions', { messages: chatOf(DATA) })).toBe(
      'messages must have at most 0 images (--limit-mm-per-prompt), got 1',
    );
    const answer = await unwilling.post('/v1/chat/completions', {
      messages: [{ role: 'user', content: 'look' }],
      max_tokens: 1,
    });
    expect(answer.status).toBe(200);
  });

  it('where a text has marks of images, or placeholders', async () => {
    const content = [chatPart(DATA), { type: 'text', text: 'an <image>' }];
    expect(await refusal(svc, '/v1/chat/completions', { messages: [{ role: 'user', content }] })).toMatch(
      /has 2 marks of images \(<image>\) for 1 images: each image needs one, and texts must not contain it/,
    );
  });

  it('where its prompt is to be cut', async () => {
    const body = { messages: chatOf(DATA), truncate_prompt_tokens: 10 };
    expect(await refusal(svc, '/v1/chat/completions', body)).toMatch(/with images cannot be truncated/);
  });

  it('where the template has no place for an image', async () => {
    const messages = [...chatOf(DATA), { role: 'assistant', content: [chatPart(DATA)] }];
    expect(await refusal(svc, '/v1/chat/completions', { messages })).toMatch(
      /^messages\[1\] has an image, and the chat template writes none in messages of the role "assistant"/,
    );
  });

  it('where the model reads only text', async () => {
    const messages = [{ role: 'user', content: [OWN] }];
    expect(await refusal(blind, '/v1/messages', { max_tokens: 2, messages })).toBe(
      'messages[0].content[0] is an image, and this model reads only text: leave it out',
    );
    expect(await refusal(blind, '/v1/responses', { input: responseOf(DATA) })).toBe(
      'input[0].content[0] is an image, and this model reads only text: leave it out',
    );
    expect(await refusal(blind, '/tokenize', { messages: chatOf(DATA) })).toMatch(
      /^messages\[0\]\.content\[0\] is of type "image_url", and this model reads only text/,
    );
  });
});

it('an image of 20 MB is taken, and a body of more than 32 MB is not', async () => {
  // What is behind the end of a picture is not read.
  const own = (numBytes: number): string =>
    dataUrl(Buffer.concat([cat, Buffer.alloc(numBytes - cat.length)]));
  const ask = (numBytes: number) =>
    svc.post('/v1/chat/completions', { messages: chatOf(own(numBytes)), max_tokens: 1 });
  expect((await ask(20 * 1024 * 1024)).status).toBe(200);
  expect(await errorOf(await ask(20 * 1024 * 1024 + 3))).toMatchObject({ status: 400 });
  expect(await errorOf(await ask(25 * 1024 * 1024))).toMatchObject({
    status: 413,
    message: 'The request body is larger than the 33554432 bytes that are accepted here',
  });
});

it('images are refused while those of others fill the memory, also before a stream begins', async () => {
  const body = { messages: chatOf(DATA), max_tokens: 1 };
  expect((await svc.post('/v1/chat/completions', body)).status).toBe(200);
  const others = svc.engine.heldImages.open('address:127.0.0.1');
  others.hold(513 * 2 ** 20);
  const answer = await svc.post('/v1/chat/completions', { ...body, stream: true });
  expect(answer.headers.get('retry-after')).toBe('1');
  expect(await errorOf(answer)).toMatchObject({
    status: 429,
    message: expect.stringContaining('bytes of pixels'),
  });
  // Nor is anything else made of an image.
  expect((await svc.post('/tokenize', body)).status).toBe(429);
  others.release();
  expect((await svc.post('/v1/chat/completions', body)).status).toBe(200);
});

it('an image decides what beams are found', async () => {
  const ask = async (picture: Uint8Array) => {
    const body = { messages: chatOf(dataUrl(picture)), use_beam_search: true, n: 2, max_tokens: 6 };
    const { choices } = await bodyOf(await svc.post('/v1/chat/completions', body));
    return JSON.stringify(choices);
  };
  const answer = await ask(cat);
  expect(await ask(cat)).toBe(answer);
  expect(await ask(await tinyPicture(2))).not.toBe(answer);
});

it('an answer depends on all tiles of an image', async () => {
  const ask = async (behind: string) => {
    // The first tile is the same: what differs is too far away to be mixed with it.
    const right = { create: { width: 64, height: 64, channels: 3, background: behind } } as const;
    const picture = await sharp({ create: { ...right.create, width: 256, background: '#808080' } })
      .composite([{ input: right, left: 192, top: 0 }])
      .png()
      .toBuffer();
    const request = { model: MODEL, max_tokens: 2, logprobs: true, temperature: 0 };
    const messages = chatOf(dataUrl(picture));
    return JSON.stringify((await svc.client.chat.completions.create({ ...request, messages })).choices);
  };
  expect(await ask('#fff')).not.toBe(await ask('#000'));
});

it('an answer is the same whatever other images are asked about', async () => {
  const ask = async (seed: number) => {
    const messages = chatOf(dataUrl(await tinyPicture(seed)));
    const request = { model: MODEL, messages, max_tokens: 8, logprobs: true, temperature: 0 };
    return JSON.stringify((await svc.client.chat.completions.create(request)).choices);
  };
  const seeds = [1, 2, 3, 4, 5];
  const together = await Promise.all(seeds.map(ask));
  expect(new Set(together).size).toBe(seeds.length);
  await svc.post('/reset_prefix_cache', {});
  for (const seed of seeds) expect(await ask(seed)).toBe(together[seed - 1]);
});

it.each([
  [1, 10_000],
  [10_000, 1],
  [1, 1],
])('an image of %i x %i is seen', async (width, height) => {
  const messages = chatOf(dataUrl(await tinyPicture(1, width, height)));
  const { usage } = await svc.client.chat.completions.create({ model: MODEL, messages, max_tokens: 1 });
  expect(usage!.prompt_tokens).toBeGreaterThan(TINY_TILE_TOKENS);
});

it('the image of an earlier turn is found in the cache', async () => {
  const [first, second] = await Promise.all([tinyPicture(20), tinyPicture(21)]);
  const ask = async (messages: OpenAI.ChatCompletionMessageParam[]) => {
    const { usage } = await svc.client.chat.completions.create({ model: MODEL, messages, max_tokens: 1 });
    return usage!;
  };
  const turn = chatOf(dataUrl(first));
  const { prompt_tokens: numTokens } = await ask(turn);
  const next = [...turn, { role: 'assistant' as const, content: 'A cat.' }, ...chatOf(dataUrl(second))];
  const { prompt_tokens_details: details } = await ask(next);
  expect(details!.cached_tokens).toBeGreaterThan(numTokens - svc.engine.info.blockSize);
  const other = [...chatOf(dataUrl(second)), ...next.slice(1)];
  expect((await ask(other)).prompt_tokens_details!.cached_tokens).toBeLessThanOrEqual(
    svc.engine.info.blockSize,
  );
});

it('an answer about an image keeps to a schema', async () => {
  const schema = { type: 'object', properties: { cat: { type: 'boolean' } }, required: ['cat'] };
  const json_schema = { name: 'seen', schema: { ...schema, additionalProperties: false }, strict: true };
  const { choices } = await svc.client.chat.completions.create({
    model: MODEL,
    messages: chatOf(DATA),
    max_tokens: 60,
    response_format: { type: 'json_schema', json_schema },
  });
  expect(JSON.parse(choices[0]!.message.content!)).toEqual({ cat: expect.any(Boolean) });
});

it('an image is not waited for when its client has left', async () => {
  const client = new RawClient(
    svc.server.port,
    rawPost('/v1/chat/completions', { messages: chatOf(webUrl('/silent')) }),
  );
  await until(() => asked.length === 1);
  client.leave();
  await until(() => svc.server.numInFlight === 0);
  await until(() => isIdle(svc.engine));
});

function dataUrl(file: Uint8Array): string {
  return `data:image/png;base64,${Buffer.from(file).toString('base64')}`;
}
