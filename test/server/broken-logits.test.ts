// A model that overflows on some text, behind HTTP.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OVERFLOWING_TOKEN, writeOverflowingModel } from '../fixtures/overflowing-model.ts';
import { errorOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-overflow-'));
let server: TestServer;
beforeAll(async () => {
  writeOverflowingModel(folder);
  server = await startTestServer({ folder });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

const request = (prompt: number[]) => ({ model: MODEL, prompt, max_tokens: 4, temperature: 0 });
const BROKEN = [5, OVERFLOWING_TOKEN, 6];
const SOUND = [5, 6];

describe('a request whose logits are not numbers', () => {
  it('is answered with an error that says so, while others are answered', async () => {
    const [broken, sound] = await Promise.all([
      server.post('/v1/completions', request(BROKEN)),
      server.post('/v1/completions', request(SOUND)),
    ]);
    expect(sound.status).toBe(200);
    const error = await errorOf(broken);
    expect(error).toMatchObject({ status: 500, type: 'InternalServerError' });
    expect(error.message).toContain(
      'NaN or infinite logits for token 1 of the answer, after 3 tokens of prompt',
    );
    expect((await server.post('/v1/completions', request(SOUND))).status).toBe(200);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  it('ends a stream with the error', async () => {
    const stream = await server.client.completions.create({ ...request(BROKEN), stream: true });
    const read = async () => {
      for await (const _ of stream);
    };
    await expect(read()).rejects.toThrow(OpenAI.APIError);
  });
});
