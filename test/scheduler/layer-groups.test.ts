// KV transfer where some layers have a window: their blocks come and go only as far as the last tokens of a prompt see.

import { describe, expect, it } from 'vitest';
import { mostBlocks, transferSize } from '../../src/kv-cache/block-groups.ts';
import type { KvTransferEvent } from '../../src/kv-transfer/connector.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { newRequest } from '../helpers/new-request.ts';
import { resultOf } from './step-result.ts';

const GROUPS = { blockSize: 16, windows: [null, 20, 20] };
const LENGTH = 130;
const MAX_STEP = 32;
/** A request of this length, its answer of up to 10 tokens included, and nothing beside it. */
const CONFIG = {
  ...GROUPS,
  maxNumSeqs: 4,
  maxNumBatchedTokens: MAX_STEP,
  numBlocks: mostBlocks(GROUPS, LENGTH + 10, MAX_STEP),
  enablePrefixCaching: true,
  speculative: null,
};
const promptTokenIds = Array.from({ length: LENGTH }, (_, index) => index % 97);

/** @returns the first position of each step. */
function runToEnd(scheduler: Scheduler): number[] {
  const positions: number[] = [];
  while (scheduler.hasUnfinished) {
    const step = scheduler.schedule();
    positions.push(step.sequences[0]!.firstPosition);
    scheduler.update(step, resultOf(step));
  }
  return positions;
}

function startLoading() {
  const events: KvTransferEvent[] = [];
  const scheduler = new Scheduler(CONFIG, null, (event) => void events.push(event));
  const transfer = { kind: 'load', transferId: 5 } as const;
  scheduler.add(newRequest({ id: 1, promptTokenIds, transfer, stop: { maxTokens: 3 } }));
  expect(scheduler.schedule().sequences).toEqual([]);
  return { scheduler, events };
}

describe('a prompt whose blocks come from another instance', () => {
  it('has blocks for what the transfer brings, and goes on behind it', () => {
    const { scheduler, events } = startLoading();
    // Nine of the first group; the token at 128 sees those from 109 on.
    const blocks = expect.any(Array);
    expect(events).toEqual([{ kind: 'load', transferId: 5, firstBlock: 0, blocks }]);
    expect(events[0]).toHaveProperty('blocks.length', transferSize(GROUPS, LENGTH - 1));
    expect(transferSize(GROUPS, LENGTH - 1)).toBe(9 + 2 * 3);
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: LENGTH - 1 });
    expect(runToEnd(scheduler)).toEqual([129, 130, 131]);
    expect(scheduler.stats).toMatchObject({ freeBlocks: CONFIG.numBlocks, preemptions: 0 });
  });

  it.each([0, 64])('is computed here from the beginning where %i tokens came', (numTokens) => {
    const { scheduler } = startLoading();
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens });
    expect(runToEnd(scheduler)).toEqual([0, 32, 64, 96, 128, 130, 131]);
    expect(scheduler.stats.freeBlocks).toBe(CONFIG.numBlocks);
  });

  it('has blocks for all that is computed here where its answer has outgrown the short contexts', () => {
    const scheduler = new Scheduler({ ...CONFIG, shortContext: LENGTH });
    const transfer = { kind: 'load', transferId: 5 } as const;
    const resumed = { resumedTokenIds: [7], stop: { maxTokens: 3 } };
    scheduler.add(newRequest({ id: 1, promptTokenIds, transfer, ...resumed }));
    const [first] = scheduler.schedule().sequences;
    expect(first).toMatchObject({ firstPosition: 0, isLong: true });
    const written = first!.newBlocks.flatMap((blocks) => blocks.slice(0, MAX_STEP / GROUPS.blockSize));
    expect(new Set(written).size).toBe(written.length);
  });
});

describe('a prompt whose blocks go to another instance', () => {
  it.each([
    ['all of it', LENGTH - 1],
    ['its whole blocks', 128],
  ])('holds what is sent of %s, and has room for the rest', (_, numTokens) => {
    const scheduler = new Scheduler(CONFIG);
    const transfer = { kind: 'send', transferId: 5, numTokens } as const;
    scheduler.add(newRequest({ id: 1, promptTokenIds, transfer, stop: { maxTokens: 3 } }));
    const sent: number[] = [];
    while (scheduler.hasUnfinished) {
      const step = scheduler.schedule();
      for (const { send } of step.sequences) {
        if (send === null) continue;
        expect(send.firstIndex).toBe(sent.length);
        sent.push(...send.blocks);
      }
      scheduler.update(step, resultOf(step));
    }
    expect(sent).toHaveLength(transferSize(GROUPS, numTokens));
    expect(new Set(sent).size).toBe(sent.length);
    expect(scheduler.stats).toMatchObject({
      heldBlocks: sent.length,
      freeBlocks: CONFIG.numBlocks - sent.length,
      preemptions: 0,
    });
    scheduler.applyTransfer({ kind: 'release', transferId: 5 });
    expect(scheduler.stats).toMatchObject({ heldBlocks: 0, freeBlocks: CONFIG.numBlocks });
  });
});
