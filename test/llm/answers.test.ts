// The parts of an answer as a program gets them: calls of functions, thoughts, and answers of a structure that is asked for.
// A random model writes none of them by itself: what it is to write is enforced.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { InvalidRequestError, LLM, type SamplingInput, type ToolInput } from '../../src/index.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';

/** Ends a thought by itself: none comes before what is enforced. */
const TEMPLATE = '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]<think></think>';

let folder: string;
let llm: LLM;
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-answers-'));
  writeTinyModel(folder, { seed: 3 });
  llm = new LLM({
    model: folder,
    maxNumSeqs: 4,
    chatTemplate: TEMPLATE,
    toolCallParser: 'hermes',
    reasoningParser: 'qwen3',
  });
});
afterAll(async () => {
  await llm.close();
  rmSync(folder, { recursive: true });
});

const MESSAGES = [{ role: 'user', content: 'Hello' }] as const;
const SAMPLING: SamplingInput = { temperature: 1, seed: 5, max_tokens: 200 };
const WEATHER: ToolInput = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { enum: ['Paris', 'Rome'] }, days: { enum: [1, 2] } },
      required: ['city', 'days'],
      additionalProperties: false,
    },
  },
};
const CLOCK: ToolInput = { type: 'function', function: { name: 'clock' } };
const TOOLS = [WEATHER, CLOCK];
const weatherArguments = z.strictObject({ city: z.enum(['Paris', 'Rome']), days: z.literal([1, 2]) });

async function messageOf(sampling: SamplingInput, options: Parameters<LLM['chat']>[2] = {}) {
  const [output] = await llm.chat(MESSAGES, { ...SAMPLING, ...sampling }, options);
  return { ...output!.outputs[0]!, ...output!.outputs[0]!.message! };
}

/** What the deltas of a stream say together. */
async function streamed(sampling: SamplingInput, options: Parameters<LLM['streamChat']>[2] = {}) {
  const calls: { id: string | undefined; name: string | undefined; arguments: string }[] = [];
  const texts = { text: '', content: '', reasoning: '', numThoughts: 0 };
  for await (const { text, delta, num_reasoning_tokens } of llm.streamChat(
    MESSAGES,
    { ...SAMPLING, ...sampling },
    options,
  )) {
    texts.text += text;
    texts.numThoughts += num_reasoning_tokens;
    texts.content += delta?.content ?? '';
    texts.reasoning += delta?.reasoning ?? '';
    for (const { index, id, function: part } of delta?.tool_calls ?? []) {
      calls[index] ??= { id, name: part.name, arguments: '' };
      calls[index].arguments += part.arguments;
    }
  }
  return { ...texts, calls };
}

describe('calls of functions', () => {
  it('are of a function by its name, with arguments that fit its schema, and can be added to the conversation', async () => {
    const toolChoice = { type: 'function', function: { name: 'get_weather' } } as const;
    const { text, ...message } = await messageOf({}, { tools: TOOLS, toolChoice });
    expect(message).toMatchObject({ role: 'assistant', content: null, finish_reason: 'stop' });
    const [call, ...others] = message.tool_calls;
    expect(others).toEqual([]);
    expect(call).toMatchObject({ id: expect.stringMatching(/^call_/), function: { name: 'get_weather' } });
    weatherArguments.parse(JSON.parse(call!.function.arguments));
    // The text stays as the model wrote it.
    expect(text).toContain(call!.function.arguments);
    const result = { role: 'tool', tool_call_id: call!.id, content: 'sunny' } as const;
    const next = await llm.chat([...MESSAGES, { ...message }, result], { temperature: 0, max_tokens: 2 });
    expect(next[0]!.prompt).toContain('sunny');
  });

  it('are of some function where one is required, and one only where they are not parallel', async () => {
    const options = { tools: TOOLS, toolChoice: 'required', parallelToolCalls: false } as const;
    const [output] = await llm.chat(MESSAGES, { ...SAMPLING, n: 3 }, options);
    const ids = output!.outputs.map(({ message, finish_reason }) => {
      expect(finish_reason).toBe('stop');
      expect(message!.tool_calls).toHaveLength(1);
      expect(['get_weather', 'clock']).toContain(message!.tool_calls[0]!.function.name);
      return message!.tool_calls[0]!.id;
    });
    expect(new Set(ids).size).toBe(3);
  });

  it('come in the deltas of a stream as they are in the whole message', async () => {
    const options = { tools: [WEATHER], toolChoice: 'required', parallelToolCalls: false } as const;
    const { text, content, calls } = await streamed({}, options);
    const whole = await messageOf({}, options);
    expect(text).toBe(whole.text);
    expect(content).toBe('');
    expect(calls).toEqual([
      {
        id: expect.stringMatching(/^call_/),
        name: 'get_weather',
        arguments: whole.tool_calls[0]!.function.arguments,
      },
    ]);
  });

  it('are none where the model may not call, though it wrote one', async () => {
    const written = '<tool_call>{"name": "clock", "arguments": {}}</tool_call>';
    const structured_outputs = { choice: [written] };
    const { content, tool_calls } = await messageOf(
      { structured_outputs },
      { tools: TOOLS, toolChoice: 'none' },
    );
    expect({ content, tool_calls }).toEqual({ content: written, tool_calls: [] });
    const none = await messageOf({ structured_outputs }, { tools: null, toolChoice: null });
    expect(none.tool_calls).toEqual([]);
  });

  it.each([
    [
      'a choice without tools',
      { toolChoice: 'required' as const },
      /tool_choice is only for requests with tools/,
    ],
    [
      'a custom tool',
      { tools: JSON.parse('[{"type": "custom", "custom": {"name": "run"}}]') },
      /tools must be functions: custom tools are served over HTTP only/,
    ],
    ['two functions of one name', { tools: [CLOCK, CLOCK] }, /two functions "clock": names must differ/],
  ])('are refused with %s', async (_, options, message) => {
    const answer = llm.chat(MESSAGES, SAMPLING, options);
    await expect(answer).rejects.toThrow(InvalidRequestError);
    await expect(answer).rejects.toThrow(message);
  });
});

describe('thoughts', () => {
  const sampling = { structured_outputs: { choice: ['<think>\nHm, well.\n</think>\n\n4'] } };

  it('are told from what is said, in a whole answer and in a stream', async () => {
    const { reasoning, content, tool_calls } = await messageOf(sampling);
    expect({ reasoning, content, tool_calls }).toEqual({
      reasoning: 'Hm, well.',
      content: '4',
      tool_calls: [],
    });
    const told = await streamed(sampling);
    expect(told).toMatchObject({ reasoning: 'Hm, well.', content: '4', calls: [] });
    expect(told.numThoughts).toBeGreaterThan('Hm, well.'.length / 2);
  });
});

describe('answers of a structure', () => {
  const person = z.strictObject({ name: z.enum(['Ada', 'Bo']), age: z.literal([7, 8]) });
  const json = z.toJSONSchema(person);

  it('fit the schema in the text of a prompt, in the message of a chat and in the deltas of a stream', async () => {
    const sampling = { ...SAMPLING, structured_outputs: { json } };
    const [output] = await llm.generate('Somebody:', sampling);
    person.parse(JSON.parse(output!.outputs[0]!.text));
    const { content } = await messageOf(sampling);
    person.parse(JSON.parse(content!));
    expect((await streamed(sampling)).content).toBe(content);
  });

  it('are refused beside an enforced call', async () => {
    const answer = messageOf({ structured_outputs: { json } }, { tools: TOOLS, toolChoice: 'required' });
    await expect(answer).rejects.toThrow(
      /tool_choice asks for a call, and structured_outputs for another answer/,
    );
  });

  it('are refused where the schema cannot be enforced, with the keyword', async () => {
    const json = { type: 'string', pattern: '(?<=a)b' };
    const answer = llm.generate('a', { structured_outputs: { json } });
    await expect(answer).rejects.toThrow(/pattern/);
  });
});
