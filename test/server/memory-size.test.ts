import { describe, expect, it } from 'vitest';
import { createResponseSchema } from '../../src/server/protocol/responses.ts';
import { readInput } from '../../src/server/responses/items.ts';
import { memorySize } from '../../src/server/responses/memory-size.ts';
import { collectGarbage } from '../helpers/collect-garbage.ts';

const NUM_TIMES = 20;
/** Of what V8 takes, which a measurement tells about. */
const LEAST = 0.8;
const MOST = 4;

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** As they come: read from a text of their own. */
function itemsOf(item: object, count: number, answerId: string): unknown {
  const { input } = createResponseSchema.parse(
    JSON.parse(JSON.stringify({ input: new Array(count).fill(item) })),
  );
  return readInput(input, answerId, () => {
    throw new Error('no item refers to another');
  });
}

/** What is told of the memory of many such items, to what they take. What earlier tests leave may be freed in one measurement. */
function ratioOf(item: object): number {
  const kept: unknown[] = [];
  const before = heapUsed();
  for (let time = 0; time < NUM_TIMES; time += 1) kept.push(itemsOf(item, 500, `answer ${time}`));
  return memorySize(kept) / (heapUsed() - before);
}

describe('the size of a value in memory', () => {
  it.each([
    ['empty messages', { role: 'user', content: '' }],
    ['empty parts', { role: 'assistant', content: new Array(10).fill({ type: 'output_text', text: '' }) }],
    ['texts of two bytes a character', { role: 'user', content: 'Œuvre '.repeat(500) }],
    ['calls', { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }],
    [
      'thoughts with fields of their own',
      { type: 'reasoning', summary: new Array(5).fill({ text: '', a: [{}], b: 0 }) },
    ],
  ])('of %s is about what is taken for them', (_, item) => {
    itemsOf(item, 500, 'warm up');
    const [, ratio] = Array.from({ length: 3 }, () => ratioOf(item)).sort((a, b) => a - b);
    expect(ratio).toBeGreaterThan(LEAST);
    expect(ratio).toBeLessThan(MOST);
  });
});
