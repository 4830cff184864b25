// A real trained model behind HTTP: its greedy text must be that of the program which it was published for.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { bodyOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

const FOLDER = sharedFixture('models/stories260K');
const goldenShape = z.object({
  cases: z.array(
    z.object({ prompt: z.string(), prompt_ids: z.array(z.int()), greedy_ids: z.array(z.int()) }),
  ),
});

describe('stories260K', needsShared(FOLDER), () => {
  let svc: TestServer;
  let cases: z.output<typeof goldenShape>['cases'] = [];
  beforeAll(async () => {
    svc = await startTestServer({ folder: FOLDER ?? '' });
    cases = goldenShape.parse(JSON.parse(readFileSync(join(FOLDER ?? '', 'golden.json'), 'utf8'))).cases;
  });
  afterAll(() => svc.close());

  const fields = (golden: (typeof cases)[number]) => ({
    model: MODEL,
    temperature: 0,
    max_tokens: golden.greedy_ids.length,
    ignore_eos: true,
  });

  it('continues token ids and texts with the golden tokens', async () => {
    expect(cases.length).toBeGreaterThan(0);
    for (const golden of cases) {
      for (const prompt of [golden.prompt_ids, golden.prompt].filter((form) => form !== '')) {
        const request = { ...fields(golden), prompt, return_token_ids: true };
        const { choices } = await bodyOf(await svc.post('/v1/completions', request));
        expect(choices[0].prompt_token_ids).toEqual(golden.prompt_ids);
        expect(choices[0].token_ids).toEqual(golden.greedy_ids);
      }
    }
  });

  it('streams the golden text to 32 clients at once', async () => {
    await Promise.all(
      Array.from({ length: 32 }, async (_, client) => {
        const golden = cases[client % cases.length]!;
        let text = '';
        const stream = await svc.client.completions.create({
          ...fields(golden),
          prompt: golden.prompt_ids,
          stream: true,
        });
        for await (const { choices } of stream) text += choices[0]!.text;
        const options = { skipSpecialTokens: true };
        const whole = await svc.engine.tokenizer!.decode(
          [...golden.prompt_ids, ...golden.greedy_ids],
          options,
        );
        const prompt = await svc.engine.tokenizer!.decode(golden.prompt_ids, options);
        expect(`${prompt}${text}`.trim()).toBe(whole.trim());
      }),
    );
  });
});
