import { describe, expect, it } from 'vitest';
import { Conversation } from '../../src/cli/chat/conversation.ts';

/** Ten exchanges of 100 characters each, a token a character, behind a system prompt of 20. */
function tenExchanges(): Conversation {
  const conversation = new Conversation('s'.repeat(20));
  for (let i = 0; i < 10; i++)
    conversation.add({ user: String(i).repeat(50), assistant: 'a'.repeat(50) }, 20 + 100 * (i + 1));
  return conversation;
}

describe('a conversation in a full context', () => {
  it('is sent whole while there is room for message and answer', () => {
    const conversation = tenExchanges();
    conversation.makeRoom('m'.repeat(50), 130, 1200);
    expect(conversation.request('m')).toHaveLength(1 + 20 + 1);
  });

  it('loses its oldest exchanges down to half of the context, never the system prompt', () => {
    const conversation = tenExchanges();
    conversation.makeRoom('m'.repeat(51), 130, 1200);
    expect(conversation.numForgotten).toBe(5);
    const [system, first] = conversation.request('m');
    expect(system?.role).toBe('system');
    expect(first?.content).toBe('5'.repeat(50));
    expect(conversation.transcript()).toHaveLength(21);
  });

  it('loses nothing by guessing where the server does not count', () => {
    const conversation = new Conversation(null);
    conversation.add({ user: 'u'.repeat(900), assistant: 'a' }, null);
    conversation.makeRoom('m'.repeat(900), 100, 1000);
    expect(conversation.numForgotten).toBe(0);
  });

  it('loses the older half when the server says that it does not fit, until nothing is left', () => {
    const conversation = tenExchanges();
    const left = [];
    while (conversation.forgetHalf()) left.push(10 - conversation.numForgotten);
    expect(left).toEqual([5, 2, 1, 0]);
    expect(conversation.request('m').map(({ role }) => role)).toEqual(['system', 'user']);
  });
});
