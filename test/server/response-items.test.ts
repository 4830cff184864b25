// The items of a response, and what else its request says, as a request for a chat.

import { describe, expect, it } from 'vitest';
import { createResponseSchema } from '../../src/server/protocol/responses.ts';
import { toChatRequest } from '../../src/server/responses/chat-request.ts';
import { readInput } from '../../src/server/responses/items.ts';

function itemsOf(input: unknown, answerId = '1') {
  return readInput(createResponseSchema.parse({ input }).input, answerId, () => {
    throw new Error('no item refers to another');
  });
}

function chatOf(input: unknown, fields: object = {}) {
  return toChatRequest(createResponseSchema.parse({ input, ...fields }), itemsOf(input));
}

const THOUGHT = { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'so' }] };
const USER = { role: 'user', content: 'go on' };
const said = (content: unknown): object => ({ role: 'assistant', content });
const called = (call_id: string, written = '{"a":1}'): object => ({
  type: 'function_call',
  call_id,
  name: 'add',
  arguments: written,
  status: 'incomplete',
});
const toolCall = (id: string, written: unknown = '{"a":1}'): object => ({
  id,
  type: 'function',
  function: { name: 'add', arguments: written },
});

describe('the items of an assistant are', () => {
  it.each([
    [
      'one message of what it thinks, says and calls',
      [THOUGHT, said('yes'), called('c1'), called('c2')],
      [{ role: 'assistant', reasoning: 'so', content: 'yes', tool_calls: [toolCall('c1'), toolCall('c2')] }],
    ],
    ['two messages where it speaks twice', [said('one'), said('two')], [said('one'), said('two')]],
    [
      'two messages where it speaks after a call',
      [called('c1'), said('yes')],
      [{ role: 'assistant', tool_calls: [toolCall('c1')] }, said('yes')],
    ],
    ['a message before that of the user', [THOUGHT, USER], [{ role: 'assistant', reasoning: 'so' }, USER]],
    [
      'a call without arguments where those were cut off',
      [called('c1', '{"a":')],
      [{ role: 'assistant', tool_calls: [toolCall('c1', {})] }],
    ],
  ])('%s', (_, items, messages) => {
    expect(chatOf(items).messages).toEqual(messages);
  });
});

describe('the text of an item', () => {
  const PARTS = [
    { type: 'input_text', text: 'a' },
    { type: 'input_text', text: 'b' },
  ];

  it('is that of its parts, a line each', () => {
    const output = { type: 'function_call_output', call_id: 'c1', output: PARTS };
    expect(chatOf([{ role: 'user', content: PARTS }, output]).messages).toEqual([
      { role: 'user', content: 'a\nb' },
      { role: 'tool', tool_call_id: 'c1', content: 'a\nb' },
    ]);
  });

  it('is what was said where the assistant refused', () => {
    expect(chatOf([said([{ type: 'refusal', refusal: 'no' }])]).messages).toEqual([said('no')]);
  });

  it('is the summary of thoughts that came without them, and nothing where that is missing, too', () => {
    const summary = [{ type: 'summary_text', text: 'in short' }];
    const told = (item: object): unknown => chatOf([{ type: 'reasoning', ...item }, USER]).messages[0];
    expect(told({ summary })).toEqual({ role: 'assistant', reasoning: 'in short' });
    expect(told({ summary, content: THOUGHT.content })).toEqual({ role: 'assistant', reasoning: 'so' });
    expect(told({ encrypted_content: 'xyz', summary: [] })).toEqual(USER);
  });
});

it('items keep the ids that they came with, and get one of their answer and place without', () => {
  const items = itemsOf([USER, { ...said('yes'), id: 'msg_mine' }, { ...called('c1'), id: null }], '7');
  expect(items.map(({ id, status }) => [id, status])).toEqual([
    ['msg_7_in0', 'completed'],
    ['msg_mine', 'completed'],
    ['fc_7_in2', 'incomplete'],
  ]);
});

describe('a request for a response asks a chat', () => {
  const INCLUDE = ['message.output_text.logprobs'];

  it('for log-probabilities only where they are included', () => {
    expect(chatOf('a', { include: INCLUDE, top_logprobs: 2 })).toMatchObject({
      logprobs: true,
      top_logprobs: 2,
    });
    const others = { include: ['file_search_call.results'], top_logprobs: 2 };
    expect(chatOf('a', others)).toMatchObject({ logprobs: false, top_logprobs: null });
  });

  it('to think as much as it says', () => {
    expect(chatOf('a', { reasoning: { effort: 'high' } }).reasoning_effort).toBe('high');
  });

  it('for no choice of tools where it has none and leaves the choice to the model', () => {
    expect(chatOf('a', { tool_choice: 'auto', tools: [] })).not.toHaveProperty('tool_choice');
    expect(chatOf('a', { tool_choice: 'required' }).tool_choice).toBe('required');
  });

  it('for functions with all that it says of them', () => {
    const about = { name: 'add', description: 'adds', parameters: { type: 'object' }, strict: true };
    expect(chatOf('a', { tools: [{ type: 'function', ...about }], tool_choice: 'auto' })).toMatchObject({
      tools: [{ type: 'function', function: about }],
      tool_choice: 'auto',
    });
  });

  it.each([
    [{ type: 'json_object' }, { type: 'json_object' }],
    [
      { type: 'json_schema', name: 'sea', description: 'of it', schema: {}, strict: true },
      {
        type: 'json_schema',
        json_schema: { name: 'sea', description: 'of it', schema: {}, strict: true },
      },
    ],
    [
      { type: 'json_schema', name: 'sea', schema: {}, strict: null },
      { type: 'json_schema', json_schema: { name: 'sea', schema: {} } },
    ],
  ])('for an answer in the format %j', (format, expected) => {
    expect(chatOf('a', { text: { format } }).response_format).toEqual(expected);
  });
});
