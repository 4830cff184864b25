import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { RawClient, rawPost } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';
import { errorOf, isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer();
});
afterAll(() => svc.close());

/** Whatever a test has sent, the server goes on. */
afterEach(async () => {
  expect((await fetch(`${svc.url}/health`)).status).toBe(200);
  expect(await isIdle(svc.engine)).toBe(true);
});

function refusal(body: unknown): ReturnType<typeof errorOf> {
  return svc.post('/v1/completions', body).then(errorOf);
}

describe('a body that is no request', () => {
  it.each([
    ['{"model": "tiny",}', /: Expected double-quoted property name in JSON at position 17/],
    ['{\n  "prompt": NaN\n}', /: Unexpected token 'N', "{\n {2}"prompt": NaN\n}"/],
    ['{"prompt": "abc', /: Unterminated string in JSON at position 15/],
    ['{"prompt": "a\nb"}', /: Bad control character in string literal in JSON at position 13/],
    ['{"temperature": 01}', /: Unexpected number in JSON at position 17/],
    ["{'prompt': 1}", /: Expected property name or '}' in JSON at position 1/],
  ])('%j is refused with the place', async (body, message) => {
    expect(await refusal(body)).toMatchObject({
      status: 400,
      type: 'Bad Request',
      param: null,
      message: expect.stringMatching(message),
    });
  });

  it.each([
    ['', 'has no body|body is empty'],
    ['   ', 'body is empty'],
    ['null', 'must be a JSON object, got null'],
    ['[1]', 'must be a JSON object, got an array of 1'],
    ['"text"', 'must be a JSON object, got "text"'],
  ])('%j is refused as no object', async (body, message) => {
    expect(await refusal(body)).toMatchObject({
      status: 400,
      type: 'Bad Request',
      message: expect.stringMatching(message),
    });
  });

  it('is refused where it is not UTF-8', async () => {
    const bytes = Buffer.concat([Buffer.from('{"prompt":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]);
    expect(await refusal(new Uint8Array(bytes))).toMatchObject({
      status: 400,
      message: expect.stringMatching(/not valid UTF-8/),
    });
  });

  it('is refused where it is nested deeply, however deeply', async () => {
    for (const depth of [200, 1_000_000]) {
      const body = `{"prompt":${'['.repeat(depth)}${']'.repeat(depth)}}`;
      expect(await refusal(body)).toMatchObject({
        status: 400,
        message: expect.stringMatching(/nested more than 128 levels/),
      });
    }
  });

  it('is refused where its type is another', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'nonsense']) {
      const response = await svc.post('/v1/completions', '{"prompt":"a"}', { 'content-type': type });
      expect(await errorOf(response)).toMatchObject({
        status: 400,
        type: 'Bad Request',
        message: expect.stringMatching(/media type/),
      });
    }
  });

  it('is refused where it is compressed', async () => {
    const response = await svc.post('/v1/completions', '{}', { 'content-encoding': 'gzip' });
    expect(await errorOf(response)).toMatchObject({
      status: 400,
      message: expect.stringContaining('Content-Encoding gzip is not supported'),
    });
  });

  it('is taken whatever the case and parameters of its type', async () => {
    const body = '{"prompt":"a","max_tokens":1}';
    const response = await svc.post('/v1/completions', body, {
      'content-type': 'Application/JSON; charset=UTF-8',
    });
    expect(response.status).toBe(200);
  });
});

describe('a request whose head asks for what is not there', () => {
  const body = '{"prompt": "a", "max_tokens": 1}';
  const whole = rawPost('/v1/completions', body);

  it.each([
    ['without Host', whole.replace('Host: a\r\n', ''), 400, /no Host header/],
    [
      'with an Expect of its own',
      whole.replace('\r\n', '\r\nExpect: foo\r\n'),
      417,
      /^Expect: foo cannot be met/,
    ],
  ])('(%s) is refused in the standard shape', async (_, text, code, message) => {
    const client = new RawClient(svc.server.port, text);
    client.shutDown();
    await until(() => client.isClosed);
    expect(client.answer.status).toBe(code);
    expect(JSON.parse(client.answer.body).error).toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  });

  it('is answered without Host by HTTP/1.0, and after 100 Continue', async () => {
    const old = rawPost('/v1/completions', body, { version: '1.0' }).replace('Host: a\r\n', '');
    for (const text of [old, whole.replace('\r\n', '\r\nExpect: 100-continue\r\n')]) {
      const client = new RawClient(svc.server.port, text);
      client.shutDown();
      await until(() => client.isClosed);
      expect(client.answer.status).toBe(200);
    }
  });
});

describe('a body of 10 MB', () => {
  const large = JSON.stringify({ prompt: 'a'.repeat(10 * 1024 * 1024) });

  it('is answered 413 with the limit, sent by any client', async () => {
    expect(await refusal(large)).toMatchObject({
      status: 413,
      message: expect.stringMatching(/8388608 bytes/),
    });
    const { client } = svc;
    const prompt = 'a'.repeat(10 * 1024 * 1024);
    await expect(client.completions.create({ model: MODEL, prompt })).rejects.toMatchObject({ status: 413 });
  });

  it('is answered 413 where its length is not announced', async () => {
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const request = httpRequest(`${svc.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'transfer-encoding': 'chunked' },
      });
      request.on('response', (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      request.on('error', reject);
      request.end(large);
    });
    expect(status).toBe(413);
  });

  it.each([
    ['application/json', 413],
    ['text/plain', 400],
  ])('(%s) is read before its connection is closed by the answer', async (type, status) => {
    // As Python's http.client does, which reads no answer before it has written everything.
    const text = rawPost('/v1/completions', large)
      .replace('\r\n', '\r\nConnection: close\r\n')
      .replace('application/json', type);
    const client = connect({ port: svc.server.port, host: '127.0.0.1' });
    client.pause();
    await new Promise<void>((resolve, reject) => {
      client.once('error', reject);
      client.write(text, () => resolve());
    });
    let answer = '';
    for await (const piece of client.setEncoding('utf8')) answer += piece;
    const [head = '', error = ''] = answer.split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(head).toMatch(/\r\nConnection: close/i);
    expect(JSON.parse(error).error.code).toBe(status);
  });

  it('is within a limit that was raised', async () => {
    const wide = await startTestServer({ server: { bodyLimit: 20 * 1024 * 1024 } });
    const response = await wide.post('/v1/completions', {
      prompt: 'a',
      max_tokens: 1,
      note: 'a'.repeat(10 * 1024 * 1024),
    });
    expect(response.status).toBe(200);
    await wide.close();
  });
});

describe('a field that is wrong', () => {
  it.each<[object, string, RegExp]>([
    [{ prompt: '' }, 'prompt', /^prompt must not be empty/],
    [{ prompt: [] }, 'prompt', /^prompt must not be empty/],
    [{ prompt: [''] }, 'prompt', /^prompt\[0\] must not be empty/],
    [{ prompt: [[]] }, 'prompt', /^prompt\[0\] must not be empty/],
    [{ prompt: null }, 'prompt', /^prompt must be a text, .*got null$/],
    [{ prompt: undefined }, 'prompt', /^prompt is missing: it must be a text/],
    [{ prompt: 5 }, 'prompt', /^prompt must be a text, .*got 5$/],
    [{ prompt: { text: 'a' } }, 'prompt', /got an object$/],
    [{ prompt: ['a', 5] }, 'prompt', /^prompt\[1\] must be a text like the first, got 5$/],
    [{ prompt: [1, 'a'] }, 'prompt', /^prompt\[1\] must be a token id/],
    [{ prompt: [1, -1] }, 'prompt', /^prompt\[1\] must be a token id, .*got -1$/],
    [{ prompt: [1.5] }, 'prompt', /^prompt\[0\] must be a token id/],
    [{ prompt: [[1], 'a'] }, 'prompt', /^prompt\[1\] must be an array of token ids/],
    [{ prompt: [320] }, 'prompt', /320/],
    [{ prompt: Array(2000).fill('a') }, 'prompt', /^prompt must have at most 1024 prompts/],
    [{ max_tokens: 0 }, 'max_tokens', /^max_tokens must be at least 1, got 0/],
    [{ max_tokens: -3 }, 'max_tokens', /^max_tokens must be at least 1, got -3$/],
    [{ max_tokens: 1e300 }, 'max_tokens', /^max_tokens must be/],
    [{ max_tokens: 513 }, 'max_tokens', /^max_tokens must be at most 512, .*got 513$/],
    [{ max_tokens: 1.5 }, 'max_tokens', /^max_tokens must be an integer, got 1\.5$/],
    [{ max_tokens: '12' }, 'max_tokens', /^max_tokens must be a number, got "12"$/],
    [
      { max_tokens: 512 },
      'input_tokens',
      /^The prompt has 2 tokens and max_tokens asks for 512 more, .* is 512: lower max_tokens to 510$/,
    ],
    [
      { max_tokens: 511 },
      'input_tokens',
      / is 512: shorten the prompt to 1 token or lower max_tokens to 510$/,
    ],
    [{ temperature: -0.1 }, 'temperature', /^temperature must be at least 0, got -0\.1$/],
    [{ temperature: 'hot' }, 'temperature', /^temperature must be a number, got "hot"$/],
    [{ temperature: [] }, 'temperature', /got an empty array$/],
    [{ top_p: 0 }, 'top_p', /^top_p must be greater than 0, got 0$/],
    [{ top_p: 1.1 }, 'top_p', /^top_p must be at most 1, got 1\.1$/],
    [{ top_k: -2 }, 'top_k', /^top_k must be at least -1, got -2$/],
    [{ min_p: 2 }, 'min_p', /^min_p must be at most 1/],
    [{ n: 0 }, 'n', /^n must be at least 1, got 0$/],
    [{ n: 2, temperature: 0 }, 'n', /^n must be 1 with greedy sampling/],
    [{ n: 129 }, 'n', /at most 128, got 129/],
    [{ n: 128, prompt: Array(9).fill('a') }, 'n', /at most 1024/],
    [{ seed: 0.5 }, 'seed', /^seed must be an integer, got 0\.5$/],
    [{ seed: 2 ** 64 }, 'seed', /^seed must be at most/],
    [{ stop: '' }, 'stop', /must not (be empty|contain empty strings)/],
    [{ stop: 5 }, 'stop', /^stop must be a string or an array, got 5$/],
    [{ stop: ['a', 5] }, 'stop', /^stop\[1\] must be a string, got 5$/],
    [{ stop_token_ids: [-1] }, 'stop_token_ids', /^stop_token_ids\[0\] must be at least 0, got -1$/],
    [{ stop_token_ids: [9999] }, 'stop_token_ids', /9999/],
    [{ stream: 'yes' }, 'stream', /^stream must be true or false, got "yes"$/],
    [{ stream_options: { include_usage: true } }, 'stream_options', /only for streams/],
    [{ stream_options: 5, stream: true }, 'stream_options', /^stream_options must be an object, got 5$/],
    [{ echo: 1 }, 'echo', /^echo must be true or false, got 1$/],
    [{ model: 5 }, 'model', /^model must be a string, got 5$/],
    [{ request_id: 'a\r\nb' }, 'request_id', /printable ASCII/],
    [{ response_format: 'json' }, 'response_format', /^response_format must be an object/],
    [{ suffix: 'end' }, 'suffix', /^suffix is not available yet/],
    [{ logprob_token_ids: [5] }, 'logprob_token_ids', /^logprob_token_ids needs logprobs/],
    [{ logprob_token_ids: [320], logprobs: 0 }, 'logprob_token_ids', /from 0 to 319, got 320 at index 0$/],
    [{ logprob_token_ids: Array(21).fill(5), logprobs: 0 }, 'logprob_token_ids', /at most 20 ids, got 21;/],
    [{ truncation_side: 'middle' }, 'truncation_side', /^truncation_side must be "left" or "right"/],
    [{ stream_interval: 0 }, 'stream_interval', /^stream_interval must be at least 1, got 0$/],
    [
      { repetition_detection: { max_pattern_size: 2 } },
      'repetition_detection',
      /min_count is missing: it must be a number/,
    ],
    [
      { repetition_detection: { max_pattern_size: 2, min_pattern_size: 3, min_count: 2 } },
      'repetition_detection',
      /^repetition_detection.min_pattern_size must be at most max_pattern_size \(2\), got 3$/,
    ],
    [{ prompt_embeds: 'AAAA' }, 'prompt_embeds', /^prompt_embeds is not available yet/],
    [{ repetition_penalty: 0 }, 'repetition_penalty', /^repetition_penalty must be greater than 0, got 0$/],
    [{ presence_penalty: 2.1 }, 'presence_penalty', /^presence_penalty must be at most 2, got 2\.1$/],
    [{ frequency_penalty: -3 }, 'frequency_penalty', /^frequency_penalty must be at least -2, got -3$/],
    [
      { logit_bias: { a: 1 } },
      'logit_bias',
      /^logit_bias\.a is not accepted: keys must be token ids, got "a"$/,
    ],
    [{ logit_bias: { 5: 'x' } }, 'logit_bias', /^logit_bias\.5 must be a number, got "x"$/],
    [{ logit_bias: { 320: 1 } }, 'logit_bias', /^logit_bias: token ids must be integers from 0 to 319/],
    [{ logit_bias: [1] }, 'logit_bias', /^logit_bias must be an object, got an array of 1$/],
    [{ allowed_token_ids: [] }, 'allowed_token_ids', /^allowed_token_ids must not be empty/],
    [{ allowed_token_ids: [320] }, 'allowed_token_ids', /got 320 at index 0$/],
    [{ allowed_token_ids: [1], min_tokens: 1 }, 'allowed_token_ids', /nothing but end and stop tokens/],
    [{ bad_words: [''] }, 'bad_words', /^bad_words\[0\] must not contain empty strings/],
    [{ bad_words: Array(1025).fill('a') }, 'bad_words', /^bad_words must have at most 1024 elements, got/],
    [{ bad_words: ['a'.repeat(32_769)] }, 'bad_words', /^bad_words must have at most 32768 characters/],
    [{ stop: Array(65).fill('a') }, 'stop', /^stop must .*have at most 64 elements/],
    [{ stop: ['a'.repeat(1025)] }, 'stop', /^stop\[0\] must have at most 1024 characters/],
    [{ stop: 'a'.repeat(1025) }, 'stop', /have at most 1024 characters/],
    [
      { stop_token_ids: Array(1025).fill(5) },
      'stop_token_ids',
      /at most 1024 elements, got an array of 1025$/,
    ],
    [{ allowed_token_ids: Array(321).fill(5) }, 'allowed_token_ids', /at most 320 ids, as many as the vocab/],
    [
      { logit_bias: Object.fromEntries(Array.from({ length: 1025 }, (_, id) => [id, 1])) },
      'logit_bias',
      /^logit_bias must have at most 1024 tokens, got an object$/,
    ],
    [{ cache_salt: 's'.repeat(257) }, 'cache_salt', /^cache_salt must have at most 256 characters/],
    [
      { truncate_prompt_tokens: 5, prompt: 'a'.repeat(65_537) },
      'prompt',
      /65537 characters, and truncate_prompt_tokens is for at most 65536: send only what is to be kept/,
    ],
    [{ bad_words: 'word' }, 'bad_words', /^bad_words must be an array, got "word"$/],
    [{ min_tokens: -1 }, 'min_tokens', /^min_tokens must be at least 0, got -1$/],
    [
      { min_tokens: 9, max_tokens: 8 },
      'min_tokens',
      /^min_tokens must be at most 8, the most .* answer may have, got 9$/,
    ],
    [
      { min_tokens: 17 },
      'min_tokens',
      /^min_tokens must be at most 16, the most .* answer may have, got 17$/,
    ],
    [
      { truncate_prompt_tokens: 0 },
      'truncate_prompt_tokens',
      /^truncate_prompt_tokens must be -1 or at least 1/,
    ],
    [{ truncate_prompt_tokens: 513 }, 'truncate_prompt_tokens', /at most the model's context of 512/],
    [{ spaces_between_special_tokens: 'no' }, 'spaces_between_special_tokens', /must be true or false/],
    [{ logprobs: -2 }, 'logprobs', /^logprobs must be at least -1, got -2$/],
    [{ logprobs: true }, 'logprobs', /^logprobs must be a number, got true$/],
    [{ logprobs: 21 }, 'logprobs', /^logprobs must be at most 20, got 21; --max-logprobs sets the limit$/],
    [{ logprobs: -1 }, 'logprobs', /^logprobs must be at most 20, got -1 \(the whole vocabulary, 320\)/],
    [{ prompt_logprobs: 21 }, 'prompt_logprobs', /^prompt_logprobs must be at most 20, got 21/],
    [{ prompt_logprobs: 1, stream: true }, 'prompt_logprobs', /cannot be streamed/],
    [{ prompt_logprobs: -1, stream: true }, 'prompt_logprobs', /cannot be streamed/],
    [{ priority: 1 }, 'priority', /^priority must be 0 on this server.*--scheduling-policy priority/],
    [{ priority: -1 }, 'priority', /^priority must be 0 on this server.*got -1/],
    [{ priority: 'high' }, 'priority', /^priority must be a number, got "high"$/],
    [{ cache_salt: '' }, 'cache_salt', /^cache_salt must not be empty, got ""$/],
    [{ cache_salt: 5 }, 'cache_salt', /^cache_salt must be a string, got 5$/],
    [{ length_penalty: 2 }, 'length_penalty', /only for beam search/],
    [{ length_penalty: 0.5 }, 'length_penalty', /only for beam search/],
    [{ use_beam_search: true, stream: true }, 'use_beam_search', /cannot be streamed/],
    [{ use_beam_search: true, n: 11 }, 'n', /^n must be at most half of --max-logprobs \(20\), got 11$/],
    [{ use_beam_search: true, top_p: 0.5 }, 'top_p', /^top_p has no effect on beam search/],
    [{ use_beam_search: true, logprobs: 2 }, 'logprobs', /^logprobs has no effect on beam search/],
    [
      { use_beam_search: true, response_format: { type: 'json_object' } },
      'response_format',
      /^response_format has no effect on beam search/,
    ],
    [{ use_beam_search: 1 }, 'use_beam_search', /^use_beam_search must be true or false, got 1$/],
    [{ best_of: 3, stream: true }, 'best_of', /^best_of cannot be streamed/],
    [{ best_of: 2, n: 3 }, 'best_of', /^best_of must be at least n \(3\), got 2$/],
    [{ best_of: 3, use_beam_search: true }, 'best_of', /^best_of has no effect on beam search/],
    [{ best_of: 129 }, 'best_of', /^best_of must be at most 128, got 129$/],
  ])('%j is named with rule and value', async (fields, param, message) => {
    const error = await refusal({ model: MODEL, prompt: 'Hello', ...fields });
    expect(error).toMatchObject({ status: 400, param, message: expect.stringMatching(message) });
  });

  it('is a Bad Request where the type is wrong, a BadRequestError where the value is', async () => {
    expect((await refusal({ prompt: 'a', n: 'two' })).type).toBe('Bad Request');
    expect((await refusal({ prompt: 'a', n: 0 })).type).toBe('BadRequestError');
  });

  it('is listed with the others that are wrong', async () => {
    const { message } = await refusal({ prompt: 5, n: 0, top_p: 'x' });
    expect(message).toMatch(/^3 validation errors: .*n must be at least 1.*; .*top_p must be a number/);
  });

  it('is infinite where the number is too large for one', async () => {
    expect(await refusal('{"prompt":"a","temperature":1e999}')).toMatchObject({
      status: 400,
      param: 'temperature',
    });
  });

  it('is refused where it holds half a character', async () => {
    for (const [body, path] of [
      ['{"prompt":"ab\\ud800"}', 'prompt'],
      ['{"prompt":["a","\\uDC00b"]}', 'prompt[1]'],
      ['{"prompt":"a","stop":["\\ud83d"]}', 'stop[0]'],
    ] as const) {
      const { status, message, param } = await refusal(body);
      expect({ status, param }).toEqual({ status: 400, param: path.split('[')[0] });
      expect(message).toMatch(new RegExp(`^${path.replaceAll(/[[\]]/g, '\\$&')} holds half a character`));
    }
    expect((await svc.post('/v1/completions', '{"prompt":"\\ud83d\\ude00","max_tokens":1}')).status).toBe(
      200,
    );
  });

  it('is refused quickly where it holds millions of wrong values', async () => {
    for (const body of [
      `{"prompt":"a","stop":[${'1,'.repeat(3_000_000)}1]}`,
      `{"prompt":["a",${'1,'.repeat(3_000_000)}1]}`,
      `{"prompt":[${'-1,'.repeat(2_000_000)}1]}`,
      `{"prompt":"a","anything":[${'[],'.repeat(2_000_000)}1]}`,
    ]) {
      const start = performance.now();
      expect((await refusal(body)).status).toBe(400);
      expect(performance.now() - start).toBeLessThan(5000);
    }
  });

  it('is refused where the prompt does not fit into the context', async () => {
    expect(await refusal({ prompt: 'abc '.repeat(2000) })).toMatchObject({
      status: 400,
      message: expect.stringMatching(/512/),
    });
    expect(await refusal({ prompt: Array(500).fill(9) })).toMatchObject({
      status: 400,
      param: 'input_tokens',
      message: expect.stringMatching(/^The prompt has 500 tokens and max_tokens asks for 16 more/),
    });
    expect((await svc.post('/v1/completions', { prompt: Array(500).fill(9), max_tokens: 12 })).status).toBe(
      200,
    );
  });
});

describe('a path or method that is wrong', () => {
  it.each([
    ['GET', '/', 404, 'Not Found'],
    ['GET', '/v1', 404, 'Not Found'],
    ['POST', '/v1/moderations', 404, 'Not Found'],
    ['GET', '/v1/completions', 405, 'Method Not Allowed'],
    ['PUT', '/v1/chat/completions', 405, 'Method Not Allowed'],
    ['DELETE', '/v1/models/tiny', 405, 'Method Not Allowed'],
    ['POST', '/health', 405, 'Method Not Allowed'],
  ])('%s %s is answered %i in the standard shape', async (method, path, status, type) => {
    const response = await fetch(`${svc.url}${path}`, { method });
    expect(await errorOf(response)).toMatchObject({ status, type, param: null });
    if (status === 405) expect(response.headers.get('allow')).toMatch(/GET|POST/);
  });

  it('has no body in the answer to HEAD', async () => {
    for (const [path, status] of [
      ['/v1/models', 200],
      ['/health', 200],
      ['/nowhere', 404],
      ['/v1/completions', 405],
    ] as const) {
      const response = await fetch(`${svc.url}${path}`, { method: 'HEAD' });
      expect(response.status).toBe(status);
      expect(await response.text()).toBe('');
    }
  });

  it('is a 400 in the standard shape where the URL cannot be read', async () => {
    expect(await errorOf(await fetch(`${svc.url}/v1/models/%zz`))).toMatchObject({ status: 400 });
  });

  it.each([
    ['NONSENSE\r\n\r\n', 'HTTP/1.1 400'],
    [`GET /health HTTP/1.1\r\nHost: a\r\nX: ${'a'.repeat(40_000)}\r\n\r\n`, 'HTTP/1.1 431'],
  ])('answers bytes that are no HTTP request in the standard shape (%#)', async (bytes, status) => {
    const answer = await new Promise<string>((resolve, reject) => {
      let text = '';
      const socket = connect(svc.server.port, '127.0.0.1', () => socket.write(bytes));
      socket.on('data', (chunk) => {
        text += chunk;
      });
      socket.on('close', () => resolve(text));
      socket.on('error', reject);
    });
    expect(answer).toMatch(new RegExp(`^${status}`));
    expect(JSON.parse(answer.split('\r\n\r\n')[1]!).error.code).toBe(Number(status.slice(-3)));
  });
});

describe('the official client', () => {
  it('makes its own error class of each status', async () => {
    const { client } = svc;
    const { BadRequestError, NotFoundError } = OpenAI;
    const ask = (fields: object) => client.completions.create({ model: MODEL, prompt: 'a', ...fields });
    await expect(ask({ max_tokens: -1 })).rejects.toBeInstanceOf(BadRequestError);
    await expect(ask({ max_tokens: -1 })).rejects.toMatchObject({ param: 'max_tokens', code: 400 });
    await expect(ask({ model: 'x' })).rejects.toBeInstanceOf(NotFoundError);
    await expect(ask({ model: 'x' })).rejects.toThrow('The model `x` does not exist');
    await expect(ask({ model: 'x', stream: true })).rejects.toBeInstanceOf(NotFoundError);
    await expect(client.models.retrieve('x')).rejects.toBeInstanceOf(NotFoundError);
    await expect(client.embeddings.create({ model: MODEL, input: 'a' })).rejects.toBeInstanceOf(
      BadRequestError,
    );
    await expect(client.get('/chat/completions')).rejects.toMatchObject({ status: 405 });
  });
});

it('fields with the names of inherited properties are fields that nobody knows', async () => {
  const body =
    '{"prompt": "a", "max_tokens": 1, "constructor": 1, "toString": 2, "__proto__": {"max_tokens": 9}}';
  expect((await svc.post('/v1/completions', body)).status).toBe(200);
});

it('a chat of more messages than anyone can have had is refused', async () => {
  const messages = Array.from({ length: 4097 }, () => ({ role: 'user', content: 'a' }));
  expect(await svc.post('/v1/chat/completions', { messages }).then(errorOf)).toMatchObject({
    status: 400,
    param: 'messages',
    message: expect.stringMatching(/^messages must have at most 4096/),
  });
});

it('megabytes of text are refused without being tokenised', async () => {
  const prompt = 'hello wo'.repeat(1e6);
  expect(await refusal({ prompt })).toMatchObject({
    status: 400,
    param: 'prompt',
    // Of one that was tokenised it is known how many it has.
    message: expect.stringMatching(/^the prompt has at least \d+ tokens/),
  });
});
