// The models of `LLM` in the hands of the `ai` SDK itself. Thoughts and calls that a model chooses are beyond one so small: there the
// deltas are given.

import { embedMany, generateText, Output, streamText, tool } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { readCall } from '../../src/ai-sdk/call.ts';
import { embeddingModel, languageModel } from '../../src/ai-sdk/models.ts';
import { collectParts, streamParts } from '../../src/ai-sdk/stream-parts.ts';
import { type ChatCompletionDelta, InvalidRequestError, LLM } from '../../src/index.ts';
import { poolingFolder } from '../engine/pooling-models.ts';

const SETTINGS = { prompt: 'Hello', temperature: 0, maxOutputTokens: 12, maxRetries: 0 };

let llm: LLM;
beforeAll(() => {
  llm = new LLM({ model: 'models/svc-chat', numThreads: 1 });
});
afterAll(() => llm.close());

describe('a language model', () => {
  it('answers as LLM does, and tells what it cost', async () => {
    const { text, usage, finishReason } = await generateText({ ...SETTINGS, model: languageModel(llm) });
    const [expected] = await llm.chat(
      [{ role: 'user', content: 'Hello' }],
      { temperature: 0, max_tokens: 12 },
      { useProgressBar: false },
    );
    const { outputs, prompt_token_ids } = expected!;
    expect(text).toBe(outputs[0]!.text);
    expect(usage).toMatchObject({
      inputTokens: prompt_token_ids.length,
      outputTokens: outputs[0]!.token_ids.length,
      outputTokenDetails: { reasoningTokens: 0 },
    });
    expect(finishReason).toBe(outputs[0]!.finish_reason);
  });

  it('streams the same text in pieces', async () => {
    const model = languageModel(llm);
    const { text: whole } = await generateText({ ...SETTINGS, model });
    const pieces: string[] = [];
    const result = streamText({ ...SETTINGS, model });
    for await (const piece of result.textStream) pieces.push(piece);
    expect(pieces.length).toBeGreaterThan(2);
    expect(pieces.join('')).toBe(whole);
    expect((await result.usage).outputTokens).toBeGreaterThan(2);
  });

  it('makes objects that fit a schema', async () => {
    const schema = z.object({ mood: z.enum(['happy', 'sad']), age: z.union([z.literal(1), z.literal(2)]) });
    const { output } = await generateText({
      ...SETTINGS,
      maxOutputTokens: 60,
      model: languageModel(llm),
      output: Output.object({ schema }),
    });
    schema.parse(output);
  });

  it('calls the tool that it must, which the SDK runs', async () => {
    const asked: string[] = [];
    const { steps, toolResults } = await generateText({
      ...SETTINGS,
      maxOutputTokens: 60,
      model: languageModel(llm),
      toolChoice: { type: 'tool', toolName: 'clock' },
      tools: {
        clock: tool({
          inputSchema: z.object({ zone: z.enum(['UTC', 'CET']) }),
          execute: ({ zone }) => {
            asked.push(zone);
            return `noon in ${zone}`;
          },
        }),
      },
    });
    expect(steps[0]!.finishReason).toBe('tool-calls');
    expect(toolResults.map(({ output }) => output)).toEqual(asked.map((zone) => `noon in ${zone}`));
    expect(asked.length).toBeGreaterThan(0);
  });

  it('takes fields that the SDK does not have as options of the provider, and refuses wrong ones', async () => {
    const of = (svc: Record<string, number | number[]>) =>
      generateText({ ...SETTINGS, model: languageModel(llm), providerOptions: { svc } });
    const { usage } = await of({ max_tokens: 3 });
    expect(usage.outputTokens).toBe(3);
    await expect(of({ min_p: 2 })).rejects.toThrow(/min_p must be at most 1/);
    await expect(of({ chatTemplateKwargs: 5 })).rejects.toThrow(/chatTemplateKwargs must be an object/);
    await expect(of({ nonsense: 1 })).rejects.toThrow(/nonsense/);
  });

  it('ends with the signal of the call', async () => {
    const controller = new AbortController();
    const result = streamText({
      ...SETTINGS,
      maxOutputTokens: 2000,
      providerOptions: { svc: { ignore_eos: true } },
      model: languageModel(llm),
      abortSignal: controller.signal,
    });
    const kinds: string[] = [];
    for await (const { type } of result.fullStream) {
      kinds.push(type);
      if (type === 'text-delta') controller.abort();
    }
    expect(kinds.at(-1)).toBe('abort');
  });
});

describe('a call of the SDK', () => {
  it('becomes messages with thoughts, calls and results of tools', () => {
    const { messages } = readCall({
      prompt: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
        {
          role: 'assistant',
          content: [
            { type: 'reasoning', text: 'Hm.' },
            { type: 'text', text: 'Let me see.' },
            { type: 'tool-call', toolCallId: 'a', toolName: 'clock', input: { zone: 'UTC' } },
          ],
        },
        {
          role: 'tool',
          content: [
            {
              type: 'tool-result',
              toolCallId: 'a',
              toolName: 'clock',
              output: { type: 'json', value: { h: 12 } },
            },
          ],
        },
      ],
    });
    const called = { name: 'clock', arguments: '{"zone":"UTC"}' };
    expect(messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
      {
        role: 'assistant',
        content: 'Let me see.',
        reasoning: 'Hm.',
        tool_calls: [{ id: 'a', type: 'function', function: called }],
      },
      { role: 'tool', tool_call_id: 'a', content: '{"h":12}' },
    ]);
  });

  it('with a sound is refused, and with a tool of a provider warned of', () => {
    const file = { type: 'file' as const, mediaType: 'audio/wav', data: 'AA==' };
    expect(() => readCall({ prompt: [{ role: 'user', content: [file] }] })).toThrow(InvalidRequestError);
    const { warnings, chat } = readCall({
      prompt: [],
      tools: [{ type: 'provider', id: 'x.search', name: 'search', args: {} }],
    });
    expect(warnings).toMatchObject([{ type: 'unsupported', feature: 'the tool x.search' }]);
    expect(chat).not.toHaveProperty('tools');
  });
});

describe('an answer with thoughts, words and calls', () => {
  const delta = (fields: Partial<ChatCompletionDelta>): ChatCompletionDelta => ({
    index: 0,
    text: '',
    token_ids: [7],
    logprobs: null,
    finish_reason: null,
    stop_reason: null,
    num_reasoning_tokens: 0,
    num_prompt_tokens: 9,
    num_cached_tokens: 4,
    delta: {},
    ...fields,
  });
  async function* deltas(): AsyncGenerator<ChatCompletionDelta> {
    yield delta({ delta: { reasoning: 'H' }, num_reasoning_tokens: 1 });
    yield delta({ delta: { reasoning: 'm.', content: 'Let' }, num_reasoning_tokens: 1 });
    yield delta({ delta: { content: ' me see.' } });
    const first = { index: 0, id: 'a', type: 'function' as const, function: { name: 'f', arguments: '{' } };
    yield delta({ delta: { tool_calls: [first] } });
    const second = { index: 1, id: 'b', type: 'function' as const, function: { name: 'g', arguments: '{}' } };
    const rest = { index: 0, function: { arguments: '"a":1}' } };
    yield delta({ delta: { tool_calls: [rest, second] }, finish_reason: 'stop' });
  }

  it('is streamed in blocks, each with a beginning and an end', async () => {
    const parts = [];
    for await (const { type } of streamParts(deltas())) parts.push(type);
    const call = ['tool-input-start', 'tool-input-delta', 'tool-input-end', 'tool-call'];
    expect(parts).toEqual([
      ...['reasoning-start', 'reasoning-delta', 'reasoning-delta', 'reasoning-end'],
      ...['text-start', 'text-delta', 'text-delta', 'text-end'],
      ...call.toSpliced(1, 0, 'tool-input-delta'),
      ...call,
      'finish',
    ]);
  });

  it('is given whole with its usage, and has ended to call', async () => {
    const { content, finishReason, usage } = await collectParts(streamParts(deltas()));
    expect(content).toEqual([
      { type: 'reasoning', text: 'Hm.' },
      { type: 'text', text: 'Let me see.' },
      { type: 'tool-call', toolCallId: 'a', toolName: 'f', input: '{"a":1}' },
      { type: 'tool-call', toolCallId: 'b', toolName: 'g', input: '{}' },
    ]);
    expect(finishReason).toEqual({ unified: 'tool-calls', raw: 'stop' });
    expect(usage.inputTokens).toMatchObject({ total: 9, noCache: 5, cacheRead: 4 });
    expect(usage.outputTokens).toEqual({ total: 5, text: 3, reasoning: 2 });
  });
});

it('an embedding model gives the vectors of LLM', async () => {
  const embedder = new LLM({ model: poolingFolder('bert-cls') });
  try {
    const values = ['a cat', 'a dog'];
    const { embeddings, usage } = await embedMany({ model: embeddingModel(embedder), values });
    const expected = await embedder.embed(values, { useProgressBar: false });
    expect(embeddings).toEqual(expected.map(({ outputs }) => [...outputs.embedding]));
    expect(usage.tokens).toBeGreaterThan(2);
  } finally {
    await embedder.close();
  }
});
