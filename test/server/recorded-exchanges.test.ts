// Real requests to a real server of the protocol: whatever they ask is answered in the recorded shape, or refused by
// the name of a field.

import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { bodyOf, errorOf, eventsOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

const RECORDED = sharedFixture('openai/recorded_openllmetry_openai.jsonl');
/** What the recorded service says of its own moderation and of sound. */
const NOT_OURS = new Set([
  'moderation',
  'obfuscation',
  'content_filter_results',
  'prompt_filter_results',
  'audio_tokens',
]);

const exchangeShape = z.object({
  cassette: z.string(),
  request: z.object({ path: z.string(), body: z.record(z.string(), z.unknown()) }),
  response: z.object({ status: z.number(), body: z.unknown().optional() }),
});
type Exchange = z.output<typeof exchangeShape>;

function exchanges(): Exchange[] {
  if (RECORDED === null) return [];
  const lines = readFileSync(RECORDED, 'utf8').trim().split('\n');
  const all = lines.map((line) => exchangeShape.safeParse(JSON.parse(line)));
  return all.flatMap(({ data }) =>
    data && /^\/v1\/(chat\/)?completions$/.test(data.request.path) ? [data] : [],
  );
}

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ model: { config: { max_position_embeddings: 4096 } } });
});
afterAll(() => svc.close());

describe('recorded requests', needsShared(RECORDED), () => {
  it('are answered in the recorded shape, or refused by the name of a field', async () => {
    const outcomes = { answered: 0, refused: 0 };
    for (const { cassette, request, response } of exchanges()) {
      const body = { ...request.body, model: MODEL, max_tokens: 3, max_completion_tokens: undefined };
      const answer = await svc.post(request.path, body);
      if (answer.status === 200 && response.status === 200) {
        outcomes.answered += 1;
        if (request.body.stream !== true) expectShape(await bodyOf(answer), response.body, cassette);
        else expect(eventsOf(await answer.text()).at(-1), cassette).toBe('[DONE]');
      } else {
        outcomes.refused += 1;
        const error = await errorOf(answer);
        expect(error.status, cassette).toBe(400);
        const isNamed = error.param !== null && error.message.includes(error.param);
        expect(isNamed, `${cassette}: ${error.message}`).toBe(true);
      }
    }
    expect(outcomes.answered).toBeGreaterThan(100);
  });
});

/** Every field of `recorded` is in `ours` too, in choices, messages and usage alike. */
function expectShape(ours: unknown, recorded: unknown, where: string): void {
  if (Array.isArray(recorded) && Array.isArray(ours)) {
    if (recorded.length > 0) expectShape(ours[0], recorded[0], `${where}[0]`);
    return;
  }
  if (!isObject(recorded) || !isObject(ours)) return;
  for (const [key, value] of Object.entries(recorded)) {
    if (NOT_OURS.has(key)) continue;
    expect(Object.keys(ours), `${where}.${key}`).toContain(key);
    expectShape(ours[key], value, `${where}.${key}`);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
