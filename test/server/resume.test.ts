// A stream that one server could not end is written again by another one, byte for byte, from the tokens that its journal
// tells: the first part is known, the rest is computed.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { uniform } from '../../src/sampling/random-stream.ts';
import { StreamJournal } from '../../src/server/stream-journal.ts';
import { startTestServer, type TestServer } from './test-server.ts';

const JOURNAL = { 'x-svc-journal': '1', 'x-request-id': 'one-id' };

interface Stream {
  readonly text: string;
  readonly created: number;
  /** In the order of the stream. */
  readonly events: readonly { readonly choice: number; readonly tokenIds: readonly number[] }[];
}

const COMPLETION = {
  prompt: 'once upon a time',
  max_tokens: 24,
  temperature: 1.2,
  seed: 5,
  ignore_eos: true,
};
const CHAT = {
  messages: [{ role: 'user', content: 'tell me of the sea' }],
  max_tokens: 20,
  temperature: 1,
  seed: 9,
};

const RESPONSE = { input: 'tell me of the sea', max_output_tokens: 20, temperature: 1, seed: 9 };

const BODIES: Readonly<Record<string, readonly [path: string, body: object]>> = {
  'a completion': ['/v1/completions', COMPLETION],
  'a greedy completion': ['/v1/completions', { ...COMPLETION, temperature: 0 }],
  'a completion with logprobs and an echo': ['/v1/completions', { ...COMPLETION, logprobs: 3, echo: true }],
  'two samples': ['/v1/completions', { ...COMPLETION, n: 2 }],
  'two prompts of two samples': ['/v1/completions', { ...COMPLETION, prompt: ['a', 'the sea is'], n: 2 }],
  'a completion with penalties and min_tokens': [
    '/v1/completions',
    { ...COMPLETION, ignore_eos: false, min_tokens: 8, repetition_penalty: 1.3, frequency_penalty: 0.5 },
  ],
  'a completion that waits for stop strings': [
    '/v1/completions',
    { ...COMPLETION, stop: ['never appears here', 'nor this'] },
  ],
  'a completion with usage in every chunk': [
    '/v1/completions',
    { ...COMPLETION, stream_options: { include_usage: true, continuous_usage_stats: true } },
  ],
  'a completion of several tokens an event': ['/v1/completions', { ...COMPLETION, n: 2, stream_interval: 4 }],
  'a completion with structure': [
    '/v1/completions',
    { ...COMPLETION, ignore_eos: false, structured_outputs: { regex: '[a-c]{4,30}' } },
  ],
  'a completion of which the prompt is cut': [
    '/v1/completions',
    { ...COMPLETION, truncate_prompt_tokens: 3 },
  ],
  'a chat': ['/v1/chat/completions', CHAT],
  'a response': ['/v1/responses', { ...RESPONSE, instructions: 'be brief' }],
  'a response with logprobs': ['/v1/responses', { ...RESPONSE, include: ['message.output_text.logprobs'] }],
  'a message': ['/v1/messages', { ...CHAT, stop_sequences: ['never appears here'] }],
  'a chat with logprobs': ['/v1/chat/completions', { ...CHAT, logprobs: true, top_logprobs: 2, n: 2 }],
};

let server: TestServer;
let other: TestServer;
beforeAll(async () => {
  // No prefix cache: usage would tell what was found in it.
  const options = { model: { seed: 3 }, engine: { enablePrefixCaching: false } };
  server = await startTestServer(options);
  other = await startTestServer(options);
});
afterAll(async () => {
  await server.close();
  await other.close();
});

async function stream(at: TestServer, path: string, body: object, resume?: object): Promise<Stream> {
  const response = await at.post(
    path,
    { ...body, stream: true, ...(resume && { svc_resume: resume }) },
    JOURNAL,
  );
  const text = await response.text();
  expect(response.status, text).toBe(200);
  const events = [...text.matchAll(/^: (\d+) ([\d,]*)$/gm)].map(([, choice, ids = '']) => ({
    choice: Number(choice),
    tokenIds: ids === '' ? [] : ids.split(',').map(Number),
  }));
  return { text, created: Number(/"created(?:_at)?":(\d+)/.exec(text)?.[1] ?? 0), events };
}

/** Events of several choices come in any order among each other. */
function perChoice(text: string): string[] {
  return text.split('\n\n').toSorted((a, b) => order(a) - order(b));
}

function order(block: string): number {
  return Number(/^: (\d+) /.exec(block)?.[1] ?? 1e6);
}

/** What a proxy knows after so many events. */
function resumeAfter({ events, created }: Stream, numEvents: number, numChoices: number): object {
  const choices = Array.from({ length: numChoices }, (_, choice) =>
    events.slice(0, numEvents).flatMap((event) => (event.choice === choice ? event.tokenIds : [])),
  );
  return { created, choices };
}

it('a journal tells the tokens of an event with its last frame, and those that gave none with the next', () => {
  const journal = new StreamJournal();
  expect(journal.annotate(0, [5], ['a', 'b'])).toEqual([': 0 \na', ': 0 5\nb']);
  expect(journal.annotate(0, [6], [])).toEqual([]);
  expect(journal.annotate(1, [9], ['c'])).toEqual([': 1 9\nc']);
  expect(journal.annotate(0, [7, 8], ['d'])).toEqual([': 0 6,7,8\nd']);
});

describe('a stream that is resumed', () => {
  it.each(Object.entries(BODIES))('is the same bytes: %s', async (name, [path, body]) => {
    const whole = await stream(server, path, body);
    const numChoices = new Set(whole.events.map(({ choice }) => choice)).size;
    const cuts = [0, 1, whole.events.length, ...[0, 1, 2].map((draw) => uniform(name.length, draw, 0))];
    for (const cut of cuts) {
      const numEvents = Number.isInteger(cut) ? cut : Math.floor(cut * whole.events.length);
      const again = await stream(other, path, body, resumeAfter(whole, numEvents, numChoices));
      expect(perChoice(again.text), `cut after ${numEvents} events`).toEqual(perChoice(whole.text));
    }
  });

  it('tells all its tokens in its journal', async () => {
    const { events } = await stream(server, '/v1/completions', COMPLETION);
    expect(events.flatMap(({ tokenIds }) => tokenIds)).toHaveLength(COMPLETION.max_tokens);
  });

  it('has a line of its journal before each event but those of its end', async () => {
    const [path, body] = BODIES['a response']!;
    const blocks = (await stream(server, path, body)).text.split('\n\n').filter((block) => block !== '');
    const without = blocks.filter((block) => !/^: 0 [\d,]*\n/.test(block));
    expect(without).toEqual(blocks.slice(-1));
  });

  it('keeps no journal where nobody asks', async () => {
    const response = await server.post('/v1/completions', { ...COMPLETION, stream: true });
    expect(await response.text()).not.toMatch(/^: \d/m);
  });

  it('may have more tokens than a body may hold other numbers', async () => {
    const choices = [Array.from({ length: 1_000_000 }, () => 5)];
    const body = { ...COMPLETION, stream: true, max_tokens: 2, svc_resume: { created: 1, choices } };
    const response = await server.post('/v1/completions', body, JOURNAL);
    expect(await response.text()).toContain('at most 2 tokens, one with 1000000 cannot be resumed');
  });

  it.each([
    [{ ...COMPLETION, stream: true, svc_resume: { created: 1, choices: [[]] } }, /header x-svc-journal/, {}],
    [{ ...COMPLETION, svc_resume: { created: 1, choices: [[]] } }, /set stream to true/],
    [
      { ...COMPLETION, stream: true, svc_resume: { created: 1, choices: [] } },
      /one list of tokens for each of the 1/,
    ],
    [{ ...COMPLETION, stream: true, svc_resume: { created: 1, choices: [[999_999]] } }, /token ids must be/],
    [
      { ...COMPLETION, stream: true, max_tokens: 2, svc_resume: { created: 1, choices: [[5, 6, 7]] } },
      /at most 2 tokens/,
    ],
  ])(
    'is refused where it cannot be: %#',
    async (body, message, headers: Record<string, string> = JOURNAL) => {
      const response = await server.post('/v1/completions', body, headers);
      expect(response.status).toBe(400);
      expect(await response.text()).toMatch(message);
    },
  );
});
