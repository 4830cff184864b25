import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyTokenizer } from '../fixtures/tiny-tokenizer.ts';
import { EMOJI_IDS, EMOJI_TOKENS, hasHalfCharacter } from '../helpers/emoji.ts';
import { bodyOf, errorOf, eventsOf, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ model: { tokenizer: tinyTokenizer(EMOJI_TOKENS) } });
});
afterAll(() => svc.close());

const BODY = { prompt: 'a', max_tokens: 12, ignore_eos: true, allowed_token_ids: EMOJI_IDS };

/** The text of each event. */
async function streamed(body: object): Promise<string[]> {
  const stream = await (await svc.post('/v1/completions', { ...body, stream: true })).text();
  return eventsOf(stream)
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data).choices[0].text);
}

describe('a stream of emoji', () => {
  it('ends no event within a character, whatever stop strings hold back, and has the text of a whole answer', async () => {
    const stop = fc.oneof(
      fc.integer({ min: 1, max: 24 }).map((length) => 'x'.repeat(length)),
      fc.string({ unit: fc.constantFrom(...EMOJI_TOKENS), minLength: 1, maxLength: 3 }),
    );
    const asked = fc.asyncProperty(fc.nat(1000), fc.array(stop, { maxLength: 2 }), async (seed, stops) => {
      const body = { ...BODY, seed, stop: stops };
      const whole = await bodyOf(await svc.post('/v1/completions', body));
      const texts = await streamed(body);
      expect(texts.filter(hasHalfCharacter)).toEqual([]);
      expect(texts.join('')).toBe(whole.choices[0].text);
      expect(hasHalfCharacter(whole.choices[0].text)).toBe(false);
    });
    await fc.assert(asked, { numRuns: 40 });
  });

  it('holds back whole characters for a stop string that ends within the next one', async () => {
    const texts = await streamed({ ...BODY, seed: 1, stop: 'xx' });
    expect(texts.length).toBeGreaterThan(1);
    expect(texts.filter(hasHalfCharacter)).toEqual([]);
  });
});

describe('an error message that quotes a long text', () => {
  it('does not cut a character in two', async () => {
    const content = [{ type: `${'x'.repeat(39)}${'😀'.repeat(40)}` }];
    const response = await svc.post('/v1/chat/completions', { messages: [{ role: 'user', content }] });
    const { status, message } = await errorOf(response);
    expect(status).toBe(400);
    expect(message).toContain('xxx😀');
    expect(hasHalfCharacter(message)).toBe(false);
  });
});
