import { describe, expect, it } from 'vitest';
import { collectSamples } from '../../src/engine/completed-sample.ts';
import type { OutputDelta, PreparedRequest } from '../../src/engine/inference-engine.ts';
import { InvalidRequestError } from '../../src/errors.ts';
import { toSvcError } from '../../src/http/errors.ts';
import { jsonPieces } from '../../src/http/json-pieces.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import { ChatWriter } from '../../src/server/chat/chat-writer.ts';
import { CompletionWriter } from '../../src/server/completion/completion-writer.ts';
import type { ResponseOptions } from '../../src/server/response-options.ts';
import type { Frames } from '../../src/server/response-writer.ts';
import { newRequest } from '../helpers/new-request.ts';

const PROMPT: PreparedRequest = {
  ...newRequest({ promptTokenIds: [1, 2, 3] }),
  arrivedAt: 0,
  params: resolveSamplingParams({ n: 2 }),
  adapter: null,
  answer: null,
  transferKey: null,
  resume: null,
};
const OPTIONS: ResponseOptions = {
  head: { id: 'cmpl-1', created: 5, model: 'm', system_fingerprint: 'f' },
  prompts: [PROMPT],
  echoes: [null],
  returnTokenIds: false,
  returnPromptLogprobs: false,
  areTokensIds: false,
  includeUsage: true,
  continuousUsage: false,
  showsCachedTokens: true,
  serviceTier: null,
};

const SPEAKER = {
  role: 'assistant',
  metadata: null,
  idLength: null,
  includesReasoning: true,
  endsForCalls: true,
  callField: 'tool_calls' as const,
};

function delta(text: string, added: Partial<OutputDelta> = {}): OutputDelta {
  return {
    index: 0,
    text,
    parts: null,
    tokenIds: [7],
    numReasoningTokens: 0,
    numCachedTokens: 2,
    logprobs: null,
    promptLogprobs: null,
    finish_reason: null,
    stop_reason: null,
    isCallCut: false,
    ...added,
  };
}

/** The JSON of `frames`, each of which must be one whole event. */
function eventsOf(frames: Frames): unknown[] {
  return frames.map((frame) => {
    expect(frame).toMatch(/^data: [^\n]*\n\n$/);
    const data = frame.slice('data: '.length, -2);
    return data === '[DONE]' ? data : JSON.parse(data);
  });
}

describe.each([
  ['CompletionWriter', () => new CompletionWriter(OPTIONS, null)],
  ['ChatWriter', () => new ChatWriter(OPTIONS, SPEAKER)],
])('%s', (_name, newWriter) => {
  it('gives no frame for tokens that are no text yet, and counts them all the same', async () => {
    const writer = newWriter();
    expect(writer.open()).toEqual([]);
    expect(await writer.delta(0, delta('', { numReasoningTokens: 1 }))).toEqual([]);
    expect(await writer.delta(0, delta('é', { finish_reason: 'stop' }))).not.toEqual([]);
    expect(await writer.delta(1, delta('', { index: 1, finish_reason: 'length' }))).not.toEqual([]);
    const [usage, done] = eventsOf(writer.close());
    expect(usage).toMatchObject({
      choices: [],
      usage: {
        prompt_tokens: 3,
        completion_tokens: 3,
        total_tokens: 6,
        prompt_tokens_details: { cached_tokens: 2 },
        completion_tokens_details: { reasoning_tokens: 1 },
      },
    });
    expect(done).toBe('[DONE]');
  });

  it('gives a frame for tokens without a text where their log-probabilities were asked for', async () => {
    const position = { tokenId: 7, logprob: -1, rank: 1, token: null, top: [] };
    const [frame = ''] = (await newWriter().delta(0, delta('', { logprobs: [position] }))).slice(-1);
    expect(frame).toContain('"token_id:7"');
  });

  it('ends a stream that failed with the error, and tells no secrets', () => {
    const writer = newWriter();
    expect(eventsOf(writer.fail(new InvalidRequestError('too late', { param: 'n' })))).toEqual([
      { error: { message: 'too late', type: 'BadRequestError', param: 'n', code: 400 } },
      '[DONE]',
    ]);
    const [event] = writer.fail(toSvcError(new Error('secret path')));
    expect(event).toContain('"code":500');
    expect(event).not.toContain('secret');
  });
});

it('a completion of several prompts counts once what the cache had of each', async () => {
  const options = { ...OPTIONS, prompts: [PROMPT, PROMPT], echoes: [null, null] };
  const ended = [0, 1].map((index) => delta('a', { index, finish_reason: 'stop' }));
  const streaming = new CompletionWriter(options, null);
  for (const choice of [0, 1, 2, 3]) await streaming.delta(choice, ended[choice % 2]!);
  const usage = { prompt_tokens: 6, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 4 } };
  expect(eventsOf(streaming.close())[0]).toMatchObject({ usage });
  const samples = [await collectSamples(ended), await collectSamples(ended)].flat();
  const body = new CompletionWriter(options, null).body(samples);
  expect(JSON.parse([...jsonPieces(body)].join(''))).toMatchObject({ usage });
});

it.each([true, false])(
  'each chunk may tell the usage of its own choice (of the cache: %s)',
  async (showsCachedTokens) => {
    const longer = { ...PROMPT, promptTokenIds: [1, 2, 3, 4] };
    const asked = { prompts: [PROMPT, longer], echoes: [null, null], continuousUsage: true };
    const writer = new CompletionWriter({ ...OPTIONS, ...asked, showsCachedTokens }, null);
    for (const choice of [0, 2]) await writer.delta(choice, delta('a'));
    const [told] = eventsOf(await writer.delta(2, delta('b')));
    const cached = showsCachedTokens ? { prompt_tokens_details: { cached_tokens: 2 } } : {};
    expect(told).toHaveProperty('usage', {
      prompt_tokens: 4,
      completion_tokens: 2,
      total_tokens: 6,
      ...cached,
      completion_tokens_details: expect.anything(),
    });
  },
);

describe('ChatWriter', () => {
  it('says where a choice stopped with its last text only', async () => {
    const writer = new ChatWriter(OPTIONS, SPEAKER);
    const [, first] = eventsOf(await writer.delta(0, delta('a')));
    expect(first).not.toHaveProperty('choices.0.stop_reason');
    const [last] = eventsOf(await writer.delta(0, delta('b', { finish_reason: 'stop', stop_reason: 'c' })));
    expect(last).toHaveProperty('choices.0.stop_reason', 'c');
  });

  it('repeats what an answer goes on with, though it only calls a function', async () => {
    const parts = [
      { kind: 'call' as const, name: 'add' },
      { kind: 'arguments' as const, text: '{}' },
    ];
    const sample = await collectSamples([delta('', { parts, finish_reason: 'stop' })]);
    const contentOf = (text: string): unknown => {
      const echoes = [text === '' ? null : { text, skipsSpecialTokens: true }];
      const body = new ChatWriter({ ...OPTIONS, echoes }, SPEAKER).body(sample);
      return JSON.parse([...jsonPieces(body)].join('')).choices[0].message.content;
    };
    expect([contentOf('So '), contentOf('')]).toEqual(['So ', null]);
  });

  it('says once for each choice who speaks, before its first text', async () => {
    const writer = new ChatWriter(OPTIONS, SPEAKER);
    const deltas = [
      await writer.delta(0, delta('a')),
      await writer.delta(1, delta('b')),
      await writer.delta(0, delta('c')),
    ];
    const spoken = deltas.map((frames) => eventsOf(frames).map((event) => JSON.stringify(event)));
    expect(spoken.map((events) => events.length)).toEqual([2, 2, 1]);
    expect(spoken.flat().filter((event) => event.includes('"role":"assistant"'))).toHaveLength(2);
  });
});
