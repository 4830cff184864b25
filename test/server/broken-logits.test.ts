// A model that overflows on some text, behind HTTP.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OVERFLOWING_TOKEN, writeOverflowingModel } from '../fixtures/overflowing-model.ts';
import { until } from '../helpers/until.ts';
import { errorOf, isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-overflow-'));
const lines: string[] = [];
let server: TestServer;
beforeAll(async () => {
  writeOverflowingModel(folder);
  const logger = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) });
  server = await startTestServer({ folder, server: { logger } });
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
    expect(lines.filter((line) => line.includes('stream failed'))).toHaveLength(1);
  });

  it.each([false, true])('ends the other prompts of its request (stream: %s)', async (stream) => {
    const { generationTokens: before } = await server.engine.stats();
    const long = { ...request([]), prompt: [SOUND, BROKEN], max_tokens: 400, ignore_eos: true, stream };
    expect(await (await server.post('/v1/completions', long)).text()).toContain('NaN or infinite logits');
    await until(() => isIdle(server.engine));
    expect((await server.engine.stats()).generationTokens - before).toBeLessThan(300);
  });
});
