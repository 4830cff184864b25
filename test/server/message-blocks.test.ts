// The blocks of a message, and what else its request says, as a request for a chat.

import { describe, expect, it } from 'vitest';
import { toChatRequest } from '../../src/server/messages/chat-request.ts';
import { countTokensSchema, createMessageSchema } from '../../src/server/protocol/messages.ts';

const USER = { role: 'user', content: 'tell me' };
const text = (it: string): object => ({ type: 'text', text: it });
const thought = (it: string): object => ({ type: 'thinking', thinking: it, signature: '' });
const CALL = { type: 'tool_use', id: 'c1', name: 'add', input: { a: 1 } };

function chatOf(fields: object) {
  return toChatRequest(createMessageSchema.parse({ max_tokens: 5, messages: [USER], ...fields }));
}

function messagesOf(...messages: object[]): unknown {
  return chatOf({ messages }).messages;
}

describe('the blocks', () => {
  it('of an assistant are one message of what it thought, said and called', () => {
    const content = [thought('so'), thought('yes'), text('I'), text('add'), CALL];
    expect(messagesOf(USER, { role: 'assistant', content }, USER)).toEqual([
      USER,
      {
        role: 'assistant',
        content: 'I\nadd',
        reasoning: 'so\nyes',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: { a: 1 } } }],
      },
      USER,
    ]);
    expect(messagesOf({ role: 'assistant', content: [text('I')] })).toEqual([
      { role: 'assistant', content: 'I' },
    ]);
  });

  it('of a user are a message for each result of a tool, and one for the text between two', () => {
    const result = (tool_use_id: string, content?: unknown): object => ({
      type: 'tool_result',
      tool_use_id,
      content,
    });
    const content = [
      text('a'),
      text('b'),
      result('c1', 'rain'),
      result('c2'),
      text('c'),
      result('c3', [text('d'), text('e')]),
    ];
    expect(messagesOf({ role: 'user', content })).toEqual([
      { role: 'user', content: 'a\nb' },
      { role: 'tool', tool_call_id: 'c1', content: 'rain' },
      { role: 'tool', tool_call_id: 'c2', content: '' },
      { role: 'user', content: 'c' },
      { role: 'tool', tool_call_id: 'c3', content: 'd\ne' },
    ]);
  });

  it('of a user who says nothing are an empty message', () => {
    expect(messagesOf({ role: 'user', content: [] })).toEqual([{ role: 'user', content: '' }]);
  });

  it('of the system are its first message, a line each', () => {
    expect(chatOf({ system: [text('a'), text('b')] }).messages).toEqual([
      { role: 'system', content: 'a\nb' },
      USER,
    ]);
  });
});

it('messages are taken as long as they are no more than a chat may have, that of the system included', () => {
  const messages = new Array(4096).fill(USER);
  expect(chatOf({ messages }).messages).toHaveLength(4096);
  expect(() => chatOf({ messages, system: 'be brief' })).toThrow(/at most 4096 .*, got 4097/);
});

describe('a request for a message asks a chat', () => {
  const TOOL = { name: 'add', description: 'adds', input_schema: { type: 'object' }, strict: true };
  const { input_schema: parameters, ...about } = TOOL;

  it('to begin a message, unless the last one is the beginning of the answer', () => {
    const begun = { continue_final_message: true, add_generation_prompt: false };
    expect(chatOf({ messages: [USER, { role: 'assistant', content: 'The' }] })).toMatchObject(begun);
    for (const content of ['', [CALL]]) {
      const last = { role: content === '' ? 'user' : 'assistant', content };
      expect(chatOf({ messages: [USER, last] })).not.toHaveProperty('continue_final_message');
    }
  });

  it('for as much as it says', () => {
    const asked = { stop_sequences: ['a'], output_config: { effort: 'high' } };
    expect(chatOf({ max_tokens: 7, ...asked })).toMatchObject({
      max_completion_tokens: 7,
      stop: ['a'],
      reasoning_effort: 'high',
    });
    const counted = toChatRequest(countTokensSchema.parse({ messages: [USER], max_tokens: 7 }));
    expect(counted.max_completion_tokens).toBeNull();
  });

  it.each([
    ['disabled', false],
    ['enabled', true],
    ['adaptive', true],
  ])('to think as it says, by the names that templates have for it: %s', (type, isOn) => {
    const kwargs = { mood: 'sea', thinking: 'x' };
    expect(chatOf({ thinking: { type }, chat_template_kwargs: kwargs }).chat_template_kwargs).toEqual({
      mood: 'sea',
      enable_thinking: isOn,
      thinking: isOn,
    });
  });

  it('for JSON of its schema, strictly', () => {
    const schema = { type: 'object' };
    expect(chatOf({ output_config: { format: { type: 'json_schema', schema } } }).response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'output', schema, strict: true },
    });
  });

  it.each([
    [{ type: 'auto' }, { tool_choice: 'auto' }],
    [{ type: 'any' }, { tool_choice: 'required' }],
    [{ type: 'none' }, { tool_choice: 'none' }],
    [
      { type: 'any', disable_parallel_tool_use: true },
      { tool_choice: 'required', parallel_tool_calls: false },
    ],
    [
      { type: 'tool', name: 'add', disable_parallel_tool_use: false },
      { tool_choice: { type: 'function', function: { name: 'add' } }, parallel_tool_calls: true },
    ],
  ])('for tools and the choice %j', (tool_choice, expected) => {
    const { tools, tool_choice: choice, parallel_tool_calls } = chatOf({ tools: [TOOL], tool_choice });
    expect(tools).toEqual([{ type: 'function', function: { ...about, parameters } }]);
    expect({ tool_choice: choice, parallel_tool_calls }).toEqual({
      parallel_tool_calls: undefined,
      ...expected,
    });
  });

  it('for no choice where it has no tools', () => {
    const chat = chatOf({ tools: [], tool_choice: { type: 'auto' } });
    expect(chat).not.toHaveProperty('tools');
    expect(chat).not.toHaveProperty('tool_choice');
  });
});
