// How many tokens of images a step has: what sees them works for each, while others wait for their next token.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PromptImage } from '../../src/images/image-processor.ts';
import type { ScheduledStep } from '../../src/scheduler/scheduled-step.ts';
import { Scheduler, type SchedulerConfig } from '../../src/scheduler/scheduler.ts';
import { newRequest } from '../helpers/new-request.ts';
import { resultOf } from './step-result.ts';

const CONFIG: SchedulerConfig = {
  maxNumSeqs: 4,
  maxNumBatchedTokens: 64,
  numBlocks: 200,
  blockSize: 16,
  windows: [null],
  enablePrefixCaching: false,
  speculative: null,
};

function imageAt(positions: readonly number[]): PromptImage {
  const image = { hash: '', tiles: [], colours: { factors: [], offsets: [] }, numTokens: positions.length };
  return { image, positions };
}

function requestOf(id: number, length: number, images: readonly PromptImage[] = []) {
  const promptTokenIds = Array.from({ length }, (_, index) => 1 + (index % 50));
  return newRequest({ id, promptTokenIds, images, stop: { maxTokens: 3 } });
}

function run(scheduler: Scheduler): ScheduledStep[] {
  const steps: ScheduledStep[] = [];
  while (scheduler.hasUnfinished) {
    const step = scheduler.schedule();
    expect(step.numTokens).toBeGreaterThan(0);
    steps.push(step);
    scheduler.update(step, resultOf(step));
  }
  return steps;
}

/** Of a step, by the images that it names. */
function numImageTokens({ sequences }: ScheduledStep): number {
  const counts = sequences.map(({ images = [], firstPosition, tokenIds }) => {
    const end = firstPosition + tokenIds.length;
    const positions = images.flatMap((image) => image.positions);
    return positions.filter((position) => position >= firstPosition && position < end).length;
  });
  return counts.reduce((sum, count) => sum + count, 0);
}

const anyRequest = fc
  .array(fc.record({ before: fc.integer({ min: 0, max: 9 }), tokens: fc.integer({ min: 1, max: 40 }) }), {
    maxLength: 3,
  })
  .map((parts) => {
    let next = 0;
    const images = parts.map(({ before, tokens }) => {
      const first = next + before;
      next = first + tokens;
      return imageAt(Array.from({ length: tokens }, (_, index) => first + index));
    });
    return { images, length: next + 1 };
  });

it('is never more than may be, and all are computed once', () => {
  fc.assert(
    fc.property(
      fc.array(anyRequest, { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 70 }),
      (requests, maxImageTokens) => {
        const scheduler = new Scheduler({ ...CONFIG, maxImageTokens });
        for (const [id, { length, images }] of requests.entries())
          scheduler.add(requestOf(id, length, images));
        const counts = run(scheduler).map(numImageTokens);
        expect(Math.max(...counts)).toBeLessThanOrEqual(maxImageTokens);
        const all = requests.flatMap(({ images }) => images.flatMap(({ positions }) => positions));
        expect(counts.reduce((sum, count) => sum + count, 0)).toBe(all.length);
      },
    ),
  );
});

describe('an image that a step computes whole', () => {
  const LARGEST = 40;
  const WHOLE = { ...CONFIG, wholeImageTokens: LARGEST, maxImageTokens: LARGEST };

  /** Of a step, the tokens of each sequence that see each other. */
  const lengthsIn = ({ sequences }: ScheduledStep) =>
    sequences.map(({ wholeRanges = [] }) => wholeRanges.map(({ first, end }) => end - first));

  it('is in one step, however many there are, and is named by it', () => {
    fc.assert(
      fc.property(
        fc.array(anyRequest, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: LARGEST + CONFIG.maxNumSeqs - 1, max: 70 }),
        fc.integer({ min: 1, max: 3 }),
        (requests, maxNumBatchedTokens, pipelineParallelSize) => {
          const scheduler = new Scheduler({ ...WHOLE, maxNumBatchedTokens, pipelineParallelSize });
          for (const [id, { length, images }] of requests.entries())
            scheduler.add(requestOf(id, length, images));
          const sequences = run(scheduler).flatMap((step) => step.sequences);
          for (const { tokenIds, firstPosition, images = [], wholeRanges = [] } of sequences) {
            expect(wholeRanges).toEqual(
              images.map(({ positions }) => ({ first: positions[0], end: positions.at(-1)! + 1 })),
            );
            for (const { first, end } of wholeRanges) {
              expect(first).toBeGreaterThanOrEqual(firstPosition);
              expect(end).toBeLessThanOrEqual(firstPosition + tokenIds.length);
            }
          }
          const all = requests.flatMap(({ images }) => images);
          expect(sequences.flatMap(({ images = [] }) => images)).toHaveLength(all.length);
        },
      ),
    );
  });

  it('waits for the next step where this one has too little room, and others go on', () => {
    const scheduler = new Scheduler(WHOLE);
    const image = imageAt(Array.from({ length: 32 }, (_, index) => 40 + index));
    scheduler.add(requestOf(0, 80, [image]));
    scheduler.add(requestOf(1, 20));
    const steps = run(scheduler);
    expect(steps[0]!.sequences.map(({ tokenIds }) => tokenIds.length)).toEqual([40, 20]);
    expect(steps[1]!.sequences.map(({ tokenIds }) => tokenIds.length)).toEqual([40, 1]);
    expect(lengthsIn(steps[1]!)).toEqual([[32], []]);
  });

  it('is as many where its tokens do not follow each other', () => {
    const scheduler = new Scheduler(WHOLE);
    scheduler.add(requestOf(0, 20, [imageAt([3, 4, 5, 9, 10])]));
    expect(lengthsIn(run(scheduler)[0]!)).toEqual([[3, 2]]);
  });

  it('goes on where what came from another instance ends inside it', () => {
    const scheduler = new Scheduler(WHOLE);
    const image = imageAt(Array.from({ length: 32 }, (_, index) => 10 + index));
    scheduler.add({ ...requestOf(0, 50, [image]), transfer: { kind: 'load', transferId: 5 } });
    expect(scheduler.schedule().sequences).toEqual([]);
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: 32 });
    const [{ sequences }] = run(scheduler) as [ScheduledStep];
    expect(sequences[0]).toMatchObject({ firstPosition: 32, wholeRanges: [{ first: 10, end: 42 }] });
  });

  it('goes on where the cache ends inside it', () => {
    const scheduler = new Scheduler({ ...WHOLE, enablePrefixCaching: true });
    const image = imageAt(Array.from({ length: 32 }, (_, index) => 10 + index));
    scheduler.add(requestOf(0, 50, [image]));
    run(scheduler);
    const other = requestOf(1, 50, [image]);
    const promptTokenIds = other.promptTokenIds.map((token, index) => (index < 45 ? token : 51));
    scheduler.add({ ...other, promptTokenIds });
    const [{ sequences }] = run(scheduler) as [ScheduledStep];
    expect(sequences[0]).toMatchObject({ firstPosition: 32, wholeRanges: [{ first: 10, end: 42 }] });
  });
});

it('lets others have their tokens meanwhile', () => {
  const scheduler = new Scheduler({ ...CONFIG, maxImageTokens: 8 });
  const image = imageAt(Array.from({ length: 32 }, (_, index) => 2 + index));
  scheduler.add(requestOf(0, 40, [image]));
  scheduler.add(requestOf(1, 20));
  const [first, second] = run(scheduler);
  expect(first!.sequences.map(({ tokenIds }) => tokenIds.length)).toEqual([10, 20]);
  expect(second!.sequences.map(({ tokenIds }) => tokenIds.length)).toEqual([8, 1]);
});
