// How the playground keeps a conversation and turns it into requests.

import { describe, expect, it } from 'vitest';
import { type Message, message } from '../../ui/playground/message.ts';
import { chatRequest, completionRequest } from '../../ui/playground/request-body.ts';
import { DEFAULT_SETTINGS } from '../../ui/playground/settings.ts';
import { beforeAnswer, openCall, withText } from '../../ui/playground/turns.ts';

const CALLS: Message = {
  ...message('assistant', ''),
  toolCalls: [
    { id: 'a', type: 'function', name: 'weather', input: '{"city":"Rome"}' },
    { id: 'b', type: 'function', name: 'time', input: '{}' },
  ],
};

describe('the conversation of the playground', () => {
  it('answers calls of tools one after the other before the user speaks again', () => {
    const asked = [message('user', 'Hi'), CALLS];
    expect(openCall(asked)?.name).toBe('weather');
    const one = withText(asked, 'sunny');
    expect(openCall(one)?.name).toBe('time');
    const both = withText(one, 'noon');
    expect(openCall(both)).toBeUndefined();
    expect(both.slice(2).map(({ role, content, toolCallId }) => [role, content, toolCallId])).toEqual([
      ['tool', 'sunny', 'a'],
      ['tool', 'noon', 'b'],
    ]);
    expect(withText(both, 'Thanks').at(-1)).toMatchObject({ role: 'user', toolCallId: null });
  });

  it('asks again what was asked last', () => {
    const asked = [message('user', 'Hi'), CALLS, message('tool', 'x', 'a')];
    expect(beforeAnswer([...asked, message('assistant', 'Hello')])).toEqual(asked);
    expect(beforeAnswer(asked)).toEqual(asked);
    expect(beforeAnswer([])).toEqual([]);
  });

  it('shows images before the text of their message', () => {
    const image = 'data:image/png;base64,AAAA';
    const asked = withText([message('user', 'Hi'), message('assistant', 'Hello')], 'What is this?', [image]);
    expect(chatRequest(null, { ...DEFAULT_SETTINGS, isStream: false }, asked).body.messages).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello' },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: image } },
          { type: 'text', text: 'What is this?' },
        ],
      },
    ]);
  });

  it('sends only what was set', () => {
    const plain = { ...DEFAULT_SETTINGS, isStream: false };
    expect(chatRequest('m', plain, [message('user', 'Hi'), CALLS, message('tool', 'x', 'a')])).toEqual({
      path: 'v1/chat/completions',
      body: {
        model: 'm',
        messages: [
          { role: 'user', content: 'Hi' },
          {
            role: 'assistant',
            content: '',
            tool_calls: [
              { id: 'a', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } },
              { id: 'b', type: 'function', function: { name: 'time', arguments: '{}' } },
            ],
          },
          { role: 'tool', content: 'x', tool_call_id: 'a' },
        ],
      },
    });
    const settings = {
      ...DEFAULT_SETTINGS,
      numbers: { temperature: '0', seed: '' },
      stop: 'END\n\n',
      schema: '{"type":"object"}',
      showsProbabilities: true,
    };
    expect(completionRequest('m', settings, 'Once').body).toEqual({
      model: 'm',
      prompt: 'Once',
      temperature: 0,
      stop: ['END'],
      stream: true,
      stream_options: { include_usage: true },
      logprobs: 5,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', strict: true, schema: { type: 'object' } },
      },
    });
  });
});
