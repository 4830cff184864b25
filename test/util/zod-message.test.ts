import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { zodMessage } from '../../src/util/zod-message.ts';

const schema = z.object({
  count: z.int().min(1),
  port: z.custom<number>(() => false, 'expected a port from 1 to 65535').optional(),
  nested: z.object({ names: z.array(z.string()) }).optional(),
});

function messageOf(value: unknown): string {
  const parsed = schema.safeParse(value);
  return parsed.success ? 'accepted' : zodMessage(parsed.error, value, 'the file');
}

describe('zodMessage', () => {
  it.each([
    [{ count: 0 }, 'count must be at least 1, got 0'],
    [{}, 'count must be a number'],
    [{ count: 1, port: 'x' }, 'port: expected a port from 1 to 65535, got "x"'],
    [{ count: 1, nested: { names: ['a', 5] } }, 'nested.names[1] must be a string, got 5'],
    [[], 'the file must be an object, got an empty array'],
  ])('says of %j what is wrong, where, and what was given', (value, message) => {
    expect(messageOf(value)).toBe(message);
  });

  it('shows no value where it gets none, so that secrets stay out of logs', () => {
    const parsed = schema.safeParse({ count: 'secret' });
    expect(zodMessage(parsed.error!, undefined, 'message')).toBe('count must be a number');
  });
});
