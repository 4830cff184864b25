// KV transfer as the scheduler sees it: what it asks the connector for, what it tells it, and what a prompt has afterwards.

import { describe, expect, it } from 'vitest';
import type { KvTransferEvent } from '../../src/kv-transfer/connector.ts';
import { Scheduler, type SchedulerConfig } from '../../src/scheduler/scheduler.ts';
import { newRequest } from '../helpers/new-request.ts';
import { resultOf } from './step-result.ts';

const CONFIG: SchedulerConfig = {
  maxNumSeqs: 2,
  maxNumBatchedTokens: 24,
  numBlocks: 16,
  blockSize: 16,
  enablePrefixCaching: true,
  windows: [null],
  speculative: null,
};
const LENGTH = 60;
const promptTokenIds = Array.from({ length: LENGTH }, (_, index) => index);
const transfer = { kind: 'load', transferId: 5 } as const;

function start(config = CONFIG) {
  const events: KvTransferEvent[] = [];
  const scheduler = new Scheduler(config, null, (event) => void events.push(event));
  return { scheduler, events };
}

function runToEnd(scheduler: Scheduler) {
  const steps = [];
  while (scheduler.hasUnfinished) {
    const step = scheduler.schedule();
    steps.push(step);
    scheduler.update(step, resultOf(step));
  }
  return steps;
}

/** The first `count` tokens of the prompt are in the prefix cache. */
function cache(scheduler: Scheduler, count: number): void {
  const prompt = [...promptTokenIds.slice(0, count), 99];
  scheduler.add(newRequest({ id: 9, promptTokenIds: prompt, stop: { maxTokens: 1 } }));
  runToEnd(scheduler);
}

describe('a prompt whose KV comes from another instance', () => {
  const prompt = newRequest({ id: 1, promptTokenIds, transfer, stop: { maxTokens: 1 } });

  it('gives its slot back when it is aborted, and its blocks once nothing comes into them any more', () => {
    const { scheduler, events } = start();
    scheduler.add(prompt);
    scheduler.schedule();
    expect(scheduler.stats).toMatchObject({ loading: 1, freeBlocks: CONFIG.numBlocks - 4 });
    scheduler.abort(1);
    expect(events.map(({ kind }) => kind)).toEqual(['load', 'loadEnded']);
    expect(scheduler.stats).toMatchObject({ loading: 0, freeBlocks: CONFIG.numBlocks - 4 });
    // Both slots are free.
    for (const id of [2, 3]) scheduler.add(newRequest({ id }));
    expect(scheduler.schedule().sequences).toHaveLength(2);
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: 0 });
    expect(scheduler.stats.freeBlocks).toBe(CONFIG.numBlocks - 2);
  });

  it('tells the connector that it wants nothing where it is aborted before it has a slot, and only then', () => {
    const { scheduler, events } = start();
    scheduler.add(prompt);
    scheduler.abort(1);
    expect(events).toEqual([{ kind: 'loadEnded', transferId: 5 }]);
    events.length = 0;
    scheduler.add(prompt);
    scheduler.schedule();
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: LENGTH - 1 });
    scheduler.abort(1);
    expect(events.map(({ kind }) => kind)).toEqual(['load']);
  });

  it('is computed here where a block at most is missing, and says so', () => {
    const { scheduler, events } = start();
    cache(scheduler, 48);
    scheduler.add(prompt);
    expect(scheduler.schedule().sequences).toMatchObject([{ firstPosition: 48 }]);
    expect(events).toEqual([{ kind: 'loadEnded', transferId: 5 }]);
  });

  it('begins to load in a step that has no token left for it, and has all of its blocks', () => {
    const { scheduler, events } = start();
    scheduler.add(newRequest({ id: 2, promptTokenIds: new Array(24).fill(7) }));
    scheduler.add(prompt);
    expect(scheduler.schedule()).toMatchObject({ numTokens: CONFIG.maxNumBatchedTokens });
    expect(events).toMatchObject([{ kind: 'load', firstBlock: 0 }]);
    const [load] = events;
    const blocks = load?.kind === 'load' ? load.blocks : [];
    expect(blocks.filter((block) => block >= 0 && block < CONFIG.numBlocks)).toHaveLength(4);
    expect(new Set(blocks).size).toBe(4);
  });

  it('is not in a step that has no token left for it, where it is computed here', () => {
    const { scheduler } = start();
    cache(scheduler, 48);
    scheduler.add(newRequest({ id: 2, promptTokenIds: new Array(24).fill(7), stop: { maxTokens: 1 } }));
    scheduler.add(prompt);
    const [first, second] = runToEnd(scheduler);
    expect(first!.sequences).toMatchObject([{ requestId: 2 }]);
    expect(first!.sequences).toHaveLength(1);
    expect(second!.sequences).toMatchObject([{ requestId: 1, firstPosition: 48 }]);
  });

  it.each([
    { came: LENGTH, first: LENGTH - 1, loaded: LENGTH - 1 - 16 },
    { came: 35, first: 35, loaded: 35 - 16 },
    { came: 0, first: 16, loaded: 0 },
  ])('goes on at $first where $came tokens came and 16 were cached', ({ came, first, loaded }) => {
    const { scheduler, events } = start();
    cache(scheduler, 16);
    scheduler.add(prompt);
    scheduler.schedule();
    expect(events).toMatchObject([{ kind: 'load', firstBlock: 1 }]);
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: came });
    // Nobody is answered twice.
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: came });
    const [step] = runToEnd(scheduler);
    expect(step!.sequences).toMatchObject([{ requestId: 1, firstPosition: first }]);
    expect(scheduler.stats).toMatchObject({
      prefixCacheQueries: 17 + LENGTH,
      prefixCacheHits: 16,
      externalCacheQueries: LENGTH - 16,
      externalCacheHits: loaded,
      freeBlocks: CONFIG.numBlocks,
    });
  });

  it('leaves the blocks that came to others', () => {
    const { scheduler } = start();
    scheduler.add(prompt);
    scheduler.schedule();
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: 40 });
    scheduler.add(newRequest({ id: 2, promptTokenIds: [...promptTokenIds.slice(0, 40), 99] }));
    expect(scheduler.schedule().sequences).toMatchObject([
      { requestId: 1, firstPosition: 40 },
      { requestId: 2, firstPosition: 32 },
    ]);
  });
});

describe('a prompt whose KV goes to another instance', () => {
  const send = { kind: 'send', transferId: 5, numTokens: LENGTH - 1 } as const;
  const prompt = newRequest({ id: 1, promptTokenIds, transfer: send, stop: { maxTokens: 2 } });

  it('sends each block once, with the step that computes its last token', () => {
    const { scheduler } = start();
    scheduler.add(prompt);
    const sent = runToEnd(scheduler).map(({ sequences }) => sequences[0]!.send);
    expect(sent.map((one) => one && [one.firstIndex, one.blocks.length])).toEqual([
      [0, 1],
      [1, 2],
      [3, 1],
      null,
    ]);
    expect(scheduler.stats).toMatchObject({ heldBlocks: 4, freeBlocks: CONFIG.numBlocks - 4 });
  });

  it('gives back what it holds once, whoever else is released', () => {
    const { scheduler } = start();
    scheduler.add(prompt);
    runToEnd(scheduler);
    scheduler.applyTransfer({ kind: 'release', transferId: 6 });
    expect(scheduler.stats.heldBlocks).toBe(4);
    for (let times = 0; times < 2; times++) scheduler.applyTransfer({ kind: 'release', transferId: 5 });
    expect(scheduler.stats).toMatchObject({ heldBlocks: 0, freeBlocks: CONFIG.numBlocks });
  });
});
