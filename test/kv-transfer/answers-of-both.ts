// What a pair of instances answers, held against one that computes all itself.

import { expect } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import type { KvEngine } from '../helpers/kv-engine.ts';

interface Instances {
  /** Computes all itself. */
  readonly whole: KvEngine;
  readonly p: KvEngine;
  readonly d: KvEngine;
}

/** Each prompt comes to D from P, which has its first token, and D goes on as `whole` does; nothing is computed twice. */
export async function expectAnswersOfBoth(
  { whole, p, d }: Instances,
  prompts: readonly (readonly number[])[],
): Promise<void> {
  for (const prompt of prompts) {
    const expected = await whole.answer('alone', prompt, 4);
    const id = makeRequestId(p.address, d.address);
    expect(await p.answer(id, prompt, 1)).toEqual(expected.slice(0, 1));
    expect(await d.answer(id, prompt, 4)).toEqual(expected);
  }
  const { loadedTokens, recomputed } = d.stats.receive;
  expect(loadedTokens).toBe(prompts.reduce((sum, { length }) => sum + length - 1, 0));
  expect(Object.values(recomputed).every((count) => count === 0)).toBe(true);
}
