// How the work is shared by the steps that several stages of layers compute at the same time.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ScheduledStep } from '../../src/scheduler/scheduled-step.ts';
import { Scheduler, type SchedulerConfig } from '../../src/scheduler/scheduler.ts';
import { shareOfStep } from '../../src/scheduler/step-share.ts';
import { newRequest } from '../helpers/new-request.ts';

const CONFIG: SchedulerConfig = {
  maxNumSeqs: 64,
  maxNumBatchedTokens: 1024,
  numBlocks: 4000,
  blockSize: 16,
  windows: [null],
  enablePrefixCaching: false,
  speculative: null,
};

/** Plans and finishes steps as the engine's loop does, each sequence that samples getting token 5. @returns the next steps. */
function run(
  scheduler: Scheduler,
  numStages: number,
  numSteps: number,
  inFlight: ScheduledStep[] = [],
): ScheduledStep[] {
  const steps: ScheduledStep[] = [];
  for (let turn = 0; steps.length < numSteps && turn < 10 * numSteps; turn += 1) {
    const step = scheduler.schedule();
    if (step.numTokens > 0) {
      steps.push(step);
      inFlight.push(step);
    }
    if (step.numTokens > 0 && inFlight.length < numStages) continue;
    const oldest = inFlight.shift();
    if (oldest === undefined) break;
    const none = oldest.sequences.map(() => []);
    scheduler.update(oldest, {
      outputs: oldest.sequences.map(({ sampling }) =>
        sampling === null ? null : { kind: 'tokens', tokenIds: [5], logprobs: null },
      ),
      promptLogprobs: none,
      resumedLogprobs: none,
    });
  }
  return steps;
}

function requestOf(id: number, promptLength: number, maxTokens = 1000) {
  return newRequest({
    id,
    promptTokenIds: new Array<number>(promptLength).fill(1 + (id % 50)),
    stop: { maxTokens },
  });
}

describe('a step of several stages', () => {
  it('has one of as many shares of the sequences as there are stages, and a round has all of them', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 8 }),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        (numStages, numEarly, numLate) => {
          const scheduler = new Scheduler({ ...CONFIG, pipelineParallelSize: numStages });
          for (let id = 0; id < numEarly; id += 1) scheduler.add(requestOf(id, 1 + ((id * 37) % 150)));
          const inFlight: ScheduledStep[] = [];
          run(scheduler, numStages, 30, inFlight);
          const numSequences = numEarly + Math.min(numLate, 64 - numEarly);
          for (let id = numEarly; id < numSequences; id += 1) scheduler.add(requestOf(id, 20));
          // The prompts, and the rounds in which the shares even out.
          run(scheduler, numStages, 80, inFlight);
          const most = Math.ceil(numSequences / numStages);
          const round = run(scheduler, numStages, numStages, inFlight);
          const ids = round.flatMap(({ sequences }) => sequences.map(({ requestId }) => requestId));
          expect(new Set(ids).size).toBe(numSequences);
          for (const { sequences } of round) expect(sequences.length).toBeLessThanOrEqual(most);
        },
      ),
      { numRuns: 50 },
    );
  });

  it('computes each of 16 sequences in every second step of two stages, eight at a time', () => {
    const scheduler = new Scheduler({ ...CONFIG, pipelineParallelSize: 2 });
    for (let id = 0; id < 16; id += 1) scheduler.add(requestOf(id, 3));
    const steps = run(scheduler, 2, 20).map(({ sequences }) => sequences.map(({ requestId }) => requestId));
    for (const [index, ids] of steps.entries()) {
      expect(ids).toHaveLength(8);
      const next = steps[index + 1] ?? steps[index - 1]!;
      expect(new Set([...ids, ...next]).size).toBe(16);
    }
  });

  it('cuts a long prompt in pieces that are in flight together', () => {
    const scheduler = new Scheduler({ ...CONFIG, pipelineParallelSize: 2 });
    scheduler.add(requestOf(1, 800));
    const sizes = [scheduler.schedule(), scheduler.schedule(), scheduler.schedule()].map(
      (one) => one.numTokens,
    );
    expect(sizes).toEqual([200, 150, 113]);
  });

  it('leaves a short prompt whole', () => {
    const scheduler = new Scheduler({ ...CONFIG, pipelineParallelSize: 4 });
    scheduler.add(requestOf(1, 50));
    expect(scheduler.schedule().numTokens).toBe(50);
    expect(scheduler.schedule().numTokens).toBe(0);
  });

  it('takes all there is where there is one stage', () => {
    const work = { running: [], numWaiting: 9, numWaitingTokens: 90 };
    expect(shareOfStep(work, 1, { maxNumSeqs: 4, maxNumBatchedTokens: 20 })).toEqual({
      maxSequences: Number.POSITIVE_INFINITY,
      maxTokens: 20,
    });
  });

  it('has room for its sequences, whatever a piece of the prompts would be', () => {
    const work = { running: [], numWaiting: 2000, numWaitingTokens: 2000 };
    const limits = { maxNumSeqs: 1000, maxNumBatchedTokens: 4096 };
    expect(shareOfStep(work, 2, limits)).toEqual({ maxSequences: 500, maxTokens: 500 });
  });

  it('is of their number alone where prompts are not cut', () => {
    const work = { running: [], numWaiting: 4, numWaitingTokens: 400 };
    const limits = { maxNumSeqs: 8, maxNumBatchedTokens: 512, computesWholePrompts: true };
    expect(shareOfStep(work, 2, limits)).toEqual({ maxSequences: 2, maxTokens: 512 });
  });
});
