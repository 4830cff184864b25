import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { zodMessage } from '../../src/util/zod-message.ts';

const schema = z.object({
  count: z.int().min(1),
  port: z.custom<number>(() => false, 'expected a port from 1 to 65535').optional(),
  nested: z.object({ names: z.array(z.string()) }).optional(),
  strict: z.strictObject({ known: z.number().optional() }).optional(),
  numbered: z.record(z.string().regex(/^\d+$/, 'keys must be numbers'), z.number()).optional(),
  format: z
    .discriminatedUnion('type', [
      z.object({ type: z.literal('text') }),
      z.object({ type: z.literal('json') }),
    ])
    .optional(),
});

function messageOf(value: unknown): string {
  const parsed = schema.safeParse(value);
  return parsed.success ? 'accepted' : zodMessage(parsed.error, value, 'the file');
}

describe('zodMessage', () => {
  it.each([
    [{ count: 0 }, 'count must be at least 1, got 0'],
    [{}, 'count is missing: it must be a number'],
    [{ count: 1, port: 'x' }, 'port: expected a port from 1 to 65535, got "x"'],
    [{ count: 1, nested: { names: ['a', 5] } }, 'nested.names[1] must be a string, got 5'],
    [{ count: 1, strict: { foo: 1, bar: 2 } }, 'strict has no field foo, bar'],
    [{ count: 1, numbered: { x: 7 } }, 'numbered.x is not accepted: keys must be numbers, got "x"'],
    [{ count: 1, format: { type: 'xml' } }, 'format.type must be "text" or "json", got "xml"'],
    [{ count: 1, format: {} }, 'format.type is missing: it must be "text" or "json"'],
    [[], 'the file must be an object, got an empty array'],
  ])('says of %j what is wrong, where, and what was given', (value, message) => {
    expect(messageOf(value)).toBe(message);
  });

  it('shows no value where it gets none, so that secrets stay out of logs', () => {
    const parsed = schema.safeParse({ count: 'secret' });
    expect(zodMessage(parsed.error!, undefined, 'message')).toBe('count must be a number');
  });
});
