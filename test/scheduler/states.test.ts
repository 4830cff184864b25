// KV transfer where layers keep states: P puts them into blocks where the part of the prompt ends that it passes, D goes on from them there.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mostBlocks } from '../../src/kv-cache/block-groups.ts';
import type { KvTransferEvent } from '../../src/kv-transfer/connector.ts';
import type { ScheduledSequence, ScheduledStep } from '../../src/scheduler/scheduled-step.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { newRequest } from '../helpers/new-request.ts';
import { resultOf } from './step-result.ts';

const GROUPS = { blockSize: 16, windows: [null], stateBlocks: 3 };
const LENGTH = 50;
const MAX_STEP = 32;
const MAX_TOKENS = 3;
/** Room for one request with its answer and its states, and nothing beside it. */
const CONFIG = {
  ...GROUPS,
  maxNumSeqs: 4,
  maxNumBatchedTokens: MAX_STEP,
  numBlocks: mostBlocks(GROUPS, LENGTH + MAX_TOKENS, MAX_STEP),
  numSnapshots: 4,
  enablePrefixCaching: true,
  speculative: null,
};
const promptTokenIds = Array.from({ length: LENGTH }, (_, index) => index % 97);

/** What becomes of the blocks of a sequence in a step: its first position, what is sent, and what is moved. */
function seen({ firstPosition, send, states }: ScheduledSequence) {
  return {
    at: firstPosition,
    ...(send && { sent: [send.firstIndex, send.blocks.length] }),
    ...(states?.move && { moved: states.move.way }),
  };
}

function runToEnd(scheduler: Scheduler): ScheduledSequence[] {
  const all: ScheduledSequence[] = [];
  while (scheduler.hasUnfinished) {
    const step = scheduler.schedule();
    all.push(...step.sequences);
    scheduler.update(step, resultOf(step));
  }
  return all;
}

describe('a prompt whose states go to another instance', () => {
  const start = (numTokens: number, scheduler = new Scheduler(CONFIG)) => {
    const transfer = { kind: 'send', transferId: 5, numTokens } as const;
    scheduler.add(newRequest({ id: 1, promptTokenIds, transfer, stop: { maxTokens: MAX_TOKENS } }));
    return scheduler;
  };

  it.each([
    [
      LENGTH - 1,
      [
        { at: 0, sent: [0, 2] },
        { at: 32, sent: [2, 2] },
        { at: 49, sent: [4, 3], moved: 'out' },
      ],
    ],
    [
      48,
      [
        { at: 0, sent: [0, 2] },
        { at: 32, sent: [2, 1] },
        { at: 48, sent: [3, 3], moved: 'out' },
      ],
    ],
  ])(
    'has a step that begins after the %i tokens that are sent, and sends them with it',
    (numTokens, steps) => {
      const scheduler = start(numTokens);
      const all = runToEnd(scheduler);
      expect(all.map(seen)).toEqual([...steps, { at: 50 }, { at: 51 }]);
      const { send, states } = all[2]!;
      expect(send?.blocks).toEqual(states?.move?.blocks);
      // What is sent stays taken, and no more than that.
      const numSent = Math.ceil(numTokens / 16) + GROUPS.stateBlocks;
      expect(scheduler.stats).toMatchObject({ heldBlocks: numSent, freeBlocks: CONFIG.numBlocks - numSent });
      scheduler.applyTransfer({ kind: 'release', transferId: 5 });
      expect(scheduler.stats).toMatchObject({ heldBlocks: 0, freeBlocks: CONFIG.numBlocks });
    },
  );

  it('sends them from what was kept, together with blocks that were there', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 2, promptTokenIds, stop: { maxTokens: 1 } }));
    runToEnd(scheduler);
    const [first] = runToEnd(start(48, scheduler));
    expect(seen(first!)).toEqual({ at: 48, sent: [0, 6], moved: 'out' });
    expect(first!.states?.snapshot).not.toBeNull();
  });

  it('sends none where nobody wants them any more, and frees their blocks', () => {
    const scheduler = start(LENGTH - 1);
    scheduler.applyTransfer({ kind: 'release', transferId: 5 });
    expect(runToEnd(scheduler).map(seen)).toEqual([0, 32, 49, 50, 51].map((at) => ({ at })));
    expect(scheduler.stats.freeBlocks).toBe(CONFIG.numBlocks);
  });

  it('frees their blocks, in whichever step it is aborted', () => {
    for (let numSteps = 0; numSteps < 5; numSteps++) {
      const scheduler = start(LENGTH - 1);
      for (let i = 0; i < numSteps; i++) {
        const step = scheduler.schedule();
        scheduler.update(step, resultOf(step));
      }
      const step = scheduler.schedule();
      scheduler.abort(1);
      scheduler.applyTransfer({ kind: 'release', transferId: 5 });
      scheduler.update(step, resultOf(step));
      expect(scheduler.stats, `after ${numSteps} steps`).toMatchObject({
        freeBlocks: CONFIG.numBlocks,
        heldBlocks: 0,
      });
    }
  });
});

describe('a prompt whose states come from another instance', () => {
  function startLoading() {
    const events: KvTransferEvent[] = [];
    const scheduler = new Scheduler(CONFIG, null, (event) => void events.push(event));
    const transfer = { kind: 'load', transferId: 5 } as const;
    scheduler.add(newRequest({ id: 1, promptTokenIds, transfer, stop: { maxTokens: MAX_TOKENS } }));
    expect(scheduler.schedule().sequences).toEqual([]);
    const [load] = events;
    return { scheduler, blocks: load?.kind === 'load' ? load.blocks : [] };
  }

  it.each([LENGTH - 1, 48, 20])('goes on from them after the %i tokens that came', (numTokens) => {
    const { scheduler, blocks } = startLoading();
    expect(blocks).toHaveLength(4 + GROUPS.stateBlocks);
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens });
    const [first, ...rest] = runToEnd(scheduler);
    expect(seen(first!)).toEqual({ at: numTokens, moved: 'in' });
    expect(first!.states?.move?.blocks).toEqual(blocks.slice(-GROUPS.stateBlocks));
    expect(rest.map(({ states }) => states?.move ?? null)).toEqual(rest.map(() => null));
    expect(scheduler.stats).toMatchObject({ freeBlocks: CONFIG.numBlocks, preemptions: 0 });
  });

  it('keeps their blocks until the step has taken them out', () => {
    const { scheduler } = startLoading();
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: LENGTH - 1 });
    const { freeBlocks } = scheduler.stats;
    const step = scheduler.schedule();
    expect(scheduler.stats.freeBlocks).toBe(freeBlocks);
    scheduler.update(step, resultOf(step));
    expect(scheduler.stats.freeBlocks).toBe(freeBlocks + GROUPS.stateBlocks);
  });

  it('is computed from the beginning, with their blocks free, where nothing came', () => {
    const { scheduler } = startLoading();
    const { freeBlocks } = scheduler.stats;
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: 0 });
    expect(scheduler.stats.freeBlocks).toBe(freeBlocks + GROUPS.stateBlocks);
    expect(runToEnd(scheduler).map(seen)).toEqual([0, 32, 50, 51].map((at) => ({ at })));
  });

  it('is computed from the states that are here where at most a block is missing', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 2, promptTokenIds, stop: { maxTokens: 1 } }));
    runToEnd(scheduler);
    const transfer = { kind: 'load', transferId: 5 } as const;
    scheduler.add(newRequest({ id: 1, promptTokenIds, transfer, stop: { maxTokens: 1 } }));
    const [first] = scheduler.schedule().sequences;
    expect(first).toMatchObject({ firstPosition: 48, states: { move: null } });
    expect(first!.states?.snapshot).not.toBeNull();
    expect(scheduler.stats.freeBlocks).toBe(CONFIG.numBlocks - 4);
  });

  it('gives everything back when it is aborted, and nothing before its answer', () => {
    const { scheduler } = startLoading();
    const { freeBlocks } = scheduler.stats;
    scheduler.abort(1);
    expect(scheduler.stats.freeBlocks).toBe(freeBlocks);
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: LENGTH - 1 });
    expect(scheduler.stats.freeBlocks).toBe(CONFIG.numBlocks);
  });

  it('is computed from the beginning where it has given way to others before', () => {
    const scheduler = new Scheduler({ ...CONFIG, maxNumSeqs: 2, numBlocks: 3 * CONFIG.numBlocks });
    for (const id of [1, 2]) {
      const transfer = { kind: 'load', transferId: id } as const;
      const prompt = promptTokenIds.map((token) => token + id);
      scheduler.add(newRequest({ id, promptTokenIds: prompt, transfer, stop: { maxTokens: 1 } }));
    }
    scheduler.schedule();
    for (const transferId of [1, 2])
      scheduler.applyTransfer({ kind: 'loaded', transferId, numTokens: LENGTH - 1 });
    scheduler.add(newRequest({ id: 3, caller: 1, group: 1, promptTokenIds, stop: { maxTokens: 1 } }));
    const all = runToEnd(scheduler);
    expect(scheduler.stats).toMatchObject({ preemptions: 1, freeBlocks: 3 * CONFIG.numBlocks });
    const moved = all.filter(({ states }) => states?.move);
    expect(moved.map(seen)).toEqual([{ at: 49, moved: 'in' }]);
    const [other] = [1, 2].filter((id) => id !== moved[0]?.requestId);
    expect(all.find(({ requestId }) => requestId === other)).toMatchObject({ firstPosition: 0 });
  });
});

describe('states that are kept for prompts that begin alike', () => {
  const anyRequests = fc.array(
    fc.record({
      text: fc.nat(1),
      length: fc.integer({ min: 1, max: LENGTH }),
      maxTokens: fc.integer({ min: 1, max: 20 }),
      at: fc.nat(12),
      abortedAt: fc.option(fc.nat(20)),
    }),
    { maxLength: 10 },
  );
  const promptOf = ({ text, length }: { text: number; length: number }) =>
    promptTokenIds.slice(0, length).map((token) => token + text);
  const other = (id: number) =>
    newRequest({ id, promptTokenIds: new Array(17).fill(id), stop: { maxTokens: 1 } });

  /** What would be in the memory of states: of which tokens each is. */
  class FakeStates {
    readonly #ofSequences = new Map<number, string>();
    readonly #snapshots: string[] = [];

    /** Every sequence goes on from the states of the tokens that are computed. */
    compute({ sequences }: ScheduledStep, firstTokens: (id: number, count: number) => string): void {
      for (const { requestId, firstPosition, states } of sequences) {
        const kept = states?.snapshot ?? null;
        const own = firstPosition === 0 ? '' : this.#ofSequences.get(requestId);
        expect(kept === null ? own : this.#snapshots[kept]).toBe(firstTokens(requestId, firstPosition));
      }
      for (const { requestId, firstPosition, tokenIds, states } of sequences) {
        this.#ofSequences.set(requestId, firstTokens(requestId, firstPosition + tokenIds.length));
        for (const { numTokens, snapshot } of states!.saves) {
          expect(numTokens).toBeGreaterThan(0);
          expect(numTokens).toBeLessThanOrEqual(tokenIds.length);
          this.#snapshots[snapshot] = firstTokens(requestId, firstPosition + numTokens);
        }
      }
    }
  }

  it('are those of the tokens before it, wherever a sequence goes on, and give way to others afterwards', () => {
    const config = { ...CONFIG, numSnapshots: 2, maxNumBatchedTokens: 34, numBlocks: 8 };
    const seen = { cachedTokens: 0, preemptions: 0 };
    const law = fc.property(anyRequests, (requests) => {
      const scheduler = new Scheduler(config);
      const states = new FakeStates();
      const inFlight: ScheduledStep[] = [];
      const firstTokens = (id: number, count: number) =>
        [...promptOf(requests[id]!), ...new Array(20).fill(7)].slice(0, count).join(' ');
      for (let numSteps = 0; scheduler.hasUnfinished || numSteps <= 20; numSteps++) {
        for (const [id, { at, abortedAt, maxTokens, ...shape }] of requests.entries()) {
          const request = { id, promptTokenIds: promptOf(shape), group: id, stop: { maxTokens } };
          if (at === numSteps) scheduler.add(newRequest(request));
          if (abortedAt === numSteps) scheduler.abort(id);
        }
        const step = scheduler.schedule();
        states.compute(step, firstTokens);
        // Those of each that a step in flight computes are somewhere.
        const inUse = [...inFlight, step].flatMap(({ sequences }) => sequences.map((one) => one.requestId));
        expect(new Set(inUse).size).toBeLessThanOrEqual(config.maxNumSeqs);
        if (step.numTokens > 0) inFlight.push(step);
        if (inFlight.length > 1 || step.numTokens === 0)
          for (const oldest of inFlight.splice(0, 1)) scheduler.update(oldest, resultOf(oldest));
      }
      seen.cachedTokens += scheduler.stats.prefixCacheHits;
      seen.preemptions += scheduler.stats.preemptions;
      for (const id of [100, 200]) scheduler.add(other(id));
      const { sequences } = scheduler.schedule();
      expect(sequences.map((one) => one.states?.saves.length)).toEqual([1, 1]);
    });
    fc.assert(law, { numRuns: 100, seed: 1 });
    expect(seen.cachedTokens).toBeGreaterThan(0);
    expect(seen.preemptions).toBeGreaterThan(0);
  });

  it.each(['loaded', 'aborted'])(
    'are not gone on from, and give way, where later ones come from another instance: %s',
    (end) => {
      const scheduler = new Scheduler({ ...CONFIG, numSnapshots: 1, numBlocks: 2 * CONFIG.numBlocks });
      scheduler.add(
        newRequest({ id: 1, promptTokenIds: promptTokenIds.slice(0, 33), stop: { maxTokens: 1 } }),
      );
      runToEnd(scheduler);
      const transfer = { kind: 'load', transferId: 5 } as const;
      scheduler.add(newRequest({ id: 2, promptTokenIds, transfer, stop: { maxTokens: 1 } }));
      scheduler.schedule();
      expect(scheduler.stats).toMatchObject({ loading: 1, externalCacheQueries: LENGTH - 32 });
      if (end === 'aborted') scheduler.abort(2);
      scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: LENGTH - 1 });
      for (const { states } of runToEnd(scheduler))
        expect(states).toMatchObject({ snapshot: null, move: { way: 'in' } });
      scheduler.add(other(100));
      expect(scheduler.schedule().sequences[0]!.states?.saves).toHaveLength(1);
    },
  );
});
