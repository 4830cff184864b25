// A reader gets every delta once, in order, however it and they come, and an end by an error after all of them.

import { expect, it } from 'vitest';
import type { OutputDelta } from '../../src/engine/output-processor.ts';
import { OutputQueue } from '../../src/engine/output-queue.ts';

const delta = (text: string): OutputDelta => ({
  index: 0,
  text,
  parts: null,
  tokenIds: [],
  numReasoningTokens: 0,
  numCachedTokens: 0,
  logprobs: null,
  promptLogprobs: null,
  finish_reason: null,
  stop_reason: null,
  isCallCut: false,
});

async function textsOf(taken: Promise<readonly OutputDelta[]>): Promise<string[]> {
  return (await taken).map(({ text }) => text);
}

it('gives what has come at once, then the next one to whoever waits for it', async () => {
  const queue = new OutputQueue();
  for (const text of ['a', 'b']) queue.push(delta(text));
  expect(await textsOf(queue.take())).toEqual(['a', 'b']);
  const waiting = textsOf(queue.take());
  for (const text of ['c', 'd']) queue.push(delta(text));
  expect(await waiting).toEqual(['c']);
  expect(await textsOf(queue.take())).toEqual(['d']);
});

it('gives what came before a failure, then the failure, which stays the first one', async () => {
  const queue = new OutputQueue();
  queue.push(delta('a'));
  queue.fail(new Error('first'));
  queue.fail(new Error('second'));
  expect(await textsOf(queue.take())).toEqual(['a']);
  for (let times = 0; times < 2; times++) await expect(queue.take()).rejects.toThrow('first');
});

it('fails whoever waits', async () => {
  const queue = new OutputQueue();
  const waiting = queue.take();
  queue.fail(new Error('the engine died'));
  await expect(waiting).rejects.toThrow('the engine died');
});
