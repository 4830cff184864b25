// What steps see of images: others wait for their next token meanwhile.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PreparedImage, PromptImage } from '../../src/images/image-processor.ts';
import type { ScheduledStep, TileWork } from '../../src/scheduler/scheduled-step.ts';
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

let numImages = 0;

/** Two tiles where there are two tokens or more, and four patches for each token. */
function imageAt(positions: readonly number[]): PromptImage {
  const half = Math.floor(positions.length / 2);
  const tiles = [half, positions.length - half]
    .filter((count) => count > 0)
    .map((count) => ({ rows: 2, cols: 2 * count, patches: new Uint8Array(0) }));
  const colours = { factors: [], offsets: [] };
  return { image: { hash: `${numImages++}`, tiles, colours, numTokens: positions.length }, positions };
}

function requestOf(id: number, length: number, images: readonly PromptImage[] = []) {
  const promptTokenIds = Array.from({ length }, (_, index) => 1 + (index % 50));
  return newRequest({ id, promptTokenIds, images, stop: { maxTokens: 3 } });
}

/** @param maxInFlight steps that are planned before the first one of them is over */
function run(scheduler: Scheduler, maxInFlight = 1): ScheduledStep[] {
  const steps: ScheduledStep[] = [];
  const inFlight: ScheduledStep[] = [];
  while (scheduler.hasUnfinished) {
    const step = scheduler.schedule();
    expect(step.numTokens + step.tileWork.length + inFlight.length).toBeGreaterThan(0);
    steps.push(step);
    if (step.numTokens > 0) inFlight.push(step);
    if (inFlight.length < maxInFlight && step.numTokens > 0) continue;
    const oldest = inFlight.shift();
    if (oldest) scheduler.update(oldest, resultOf(oldest));
  }
  return steps;
}

const tokensIn = ({ sequences }: ScheduledStep) => sequences.map(({ tokenIds }) => tokenIds.length);

/** Of a step, each tile with the number of layers. */
const workOf = ({ tileWork }: ScheduledStep) => tileWork.map(({ tile, numLayers }) => [tile, numLayers]);

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

/** In tokens of text: a patch is three, and what it looks at makes a tenth of one for each. */
const COSTS = { numLayers: 6, ofPatch: 3, ofPair: 0.1 };

const CHEAP = { numLayers: 6, ofPatch: 1, ofPair: 0 };

/** Of a layer of a tile. */
function costOf({ image, tile }: TileWork): number {
  const { rows, cols } = image.tiles[tile]!;
  const numPatches = rows * cols;
  return (3 * numPatches + 0.1 * numPatches ** 2) / 6;
}

/**
 * Checks that tiles are seen one after the other, each before its tokens are computed.
 * @param beginsAgain whether a request may have had to begin again, in the middle of a tile too
 */
function expectSeenInTime(steps: readonly ScheduledStep[], beginsAgain = false): void {
  const numLayersSeen = new Map<string, number>();
  const keyOf = (image: PreparedImage, tile: number) => `${image.hash} ${tile}`;
  for (const { sequences, tileWork } of steps) {
    for (const { image, tile, numLayers } of tileWork) {
      const key = keyOf(image, tile);
      const isBegun = ([other, count]: [string, number]) => other !== key && count % COSTS.numLayers > 0;
      if (!beginsAgain) expect([...numLayersSeen].filter(isBegun)).toEqual([]);
      numLayersSeen.set(key, (numLayersSeen.get(key) ?? 0) + numLayers);
    }
    for (const { images = [], firstPosition, tokenIds } of sequences) {
      for (const { image, positions } of images) {
        for (const [tile, first] of [positions[0]!, positions[Math.floor(positions.length / 2)]!].entries()) {
          const isComputed = first < firstPosition + tokenIds.length && image.tiles[tile] !== undefined;
          const numLayers = numLayersSeen.get(keyOf(image, tile)) ?? 0;
          if (!isComputed) continue;
          expect(numLayers).toBeGreaterThanOrEqual(COSTS.numLayers);
          if (!beginsAgain) expect(numLayers).toBe(COSTS.numLayers);
        }
      }
    }
  }
}

const anyRequests = fc.array(anyRequest, { minLength: 1, maxLength: 5 });

it('are seen by steps that take no longer than one of text, or one layer, and before their tokens are computed', () => {
  fc.assert(
    fc.property(
      anyRequests,
      fc.integer({ min: 1, max: 400 }),
      fc.constantFrom(200, 12),
      fc.integer({ min: 1, max: 2 }),
      (requests, maxNumBatchedTokens, numBlocks, maxInFlight) => {
        const config = { ...CONFIG, maxNumBatchedTokens, numBlocks, encoderCosts: COSTS };
        const scheduler = new Scheduler(config);
        for (const [id, { length, images }] of requests.entries())
          scheduler.add(requestOf(id, length, images));
        const steps = run(scheduler, maxInFlight);
        for (const { tileWork } of steps) {
          const cost = tileWork.reduce((sum, work) => sum + work.numLayers * costOf(work), 0);
          const isOneLayer = tileWork.length === 1 && tileWork[0]!.numLayers === 1;
          if (!isOneLayer) expect(cost).toBeLessThanOrEqual(maxNumBatchedTokens + 1e-6);
        }
        const { preemptions } = scheduler.stats;
        expectSeenInTime(steps, preemptions > 0);
        if (preemptions > 0) return;
        const numComputed = steps.reduce((sum, { numTokens }) => sum + numTokens, 0);
        // And two of the three tokens that are sampled.
        expect(numComputed).toBe(requests.reduce((sum, { length }) => sum + length + 2, 0));
      },
    ),
  );
});

it('are seen whole by a step that has the time', () => {
  const scheduler = new Scheduler({ ...CONFIG, maxNumBatchedTokens: 64, encoderCosts: CHEAP });
  scheduler.add(requestOf(0, 20, [imageAt([3, 4, 5, 6, 7, 8, 9, 10]), imageAt([12, 13, 14, 15])]));
  const [first, second, ...others] = run(scheduler);
  // 16, 16, 8 and 8 patches.
  expect(workOf(first!)).toEqual([
    [0, 6],
    [1, 6],
    [0, 6],
    [1, 6],
  ]);
  expect(tokensIn(first!)).toEqual([20]);
  expect([second!, ...others].flatMap(({ tileWork }) => tileWork)).toEqual([]);
});

it('lets others have their tokens meanwhile', () => {
  const scheduler = new Scheduler({ ...CONFIG, maxNumBatchedTokens: 32, encoderCosts: CHEAP });
  scheduler.add(requestOf(0, 30, [imageAt(Array.from({ length: 24 }, (_, index) => 4 + index))]));
  scheduler.add(requestOf(1, 20));
  const steps = run(scheduler).slice(0, 4);
  // A layer of a tile of 48 patches is as long as 8 tokens of text.
  expect(steps.map(workOf)).toEqual([
    [[0, 4]],
    [
      [0, 2],
      [1, 2],
    ],
    [[1, 4]],
    [],
  ]);
  expect(steps.map(tokensIn)).toEqual([[4, 20], [12, 1], [14, 1], [1]]);
});

it('are seen by steps without tokens where nothing else is to be computed', () => {
  const scheduler = new Scheduler({ ...CONFIG, maxNumBatchedTokens: 4, encoderCosts: CHEAP });
  scheduler.add(requestOf(0, 20, [imageAt([0, 1, 2, 3])]));
  const steps = run(scheduler).slice(0, 4);
  expect(steps.map(({ numTokens }) => numTokens)).toEqual([0, 2, 0, 4]);
  expect(steps.map(workOf)).toEqual([[[0, 3]], [[0, 3]], [[1, 3]], [[1, 3]]]);
});

it('are not seen before they are needed, nor where the cache has all of their tokens', () => {
  const config = { ...CONFIG, maxNumBatchedTokens: 32, enablePrefixCaching: true, encoderCosts: CHEAP };
  const scheduler = new Scheduler(config);
  const images = [imageAt([4, 5, 6, 7]), imageAt([32, 33, 34, 35])];
  scheduler.add(requestOf(0, 40, images));
  const [first, second] = run(scheduler);
  expect([first!, second!].map(workOf)).toEqual([
    [
      [0, 6],
      [1, 6],
    ],
    [
      [0, 6],
      [1, 6],
    ],
  ]);
  const other = requestOf(1, 40, images);
  scheduler.add({ ...other, promptTokenIds: [...other.promptTokenIds.slice(0, 36), 9, 9, 9, 9] });
  const [again] = run(scheduler);
  expect(again!.sequences[0]!.firstPosition).toBe(32);
  expect(again!.tileWork.map(({ image }) => image.hash)).toEqual(
    images.slice(1).flatMap(({ image }) => [image.hash, image.hash]),
  );
});

it('are waited for where the cache ends inside one', () => {
  const config = {
    ...CONFIG,
    maxNumBatchedTokens: 16,
    enablePrefixCaching: true,
    encoderCosts: { ...CHEAP, ofPatch: 2 },
  };
  const scheduler = new Scheduler(config);
  const image = imageAt(Array.from({ length: 32 }, (_, index) => 8 + index));
  scheduler.add(requestOf(0, 44, [image]));
  run(scheduler);
  const other = requestOf(1, 44, [image]);
  scheduler.add({
    ...other,
    promptTokenIds: [...other.promptTokenIds.slice(0, 20), ...new Array(24).fill(9)],
  });
  const steps = run(scheduler);
  // Tiles of 64 patches, three of whose layers take as long as 64 tokens: one layer a step, at least.
  expect(steps.slice(0, 7).map(({ numTokens }) => numTokens)).toEqual([0, 0, 0, 0, 0, 8, 0]);
  expect(steps[5]!.sequences[0]!.firstPosition).toBe(16);
});

it('are seen by a later step where blocks are short once it is known how far', () => {
  const config = {
    ...CONFIG,
    numBlocks: 2,
    maxNumBatchedTokens: 40,
    encoderCosts: { ...CHEAP, ofPatch: 10 },
  };
  const scheduler = new Scheduler(config);
  scheduler.add(requestOf(0, 20, [imageAt([16, 17, 18, 19])]));
  scheduler.add({ ...requestOf(1, 15), stop: { ...requestOf(1, 15).stop, maxTokens: 4 } });
  const steps = run(scheduler, 2);
  expect(steps.some(({ numTokens, tileWork }) => numTokens + tileWork.length === 0)).toBe(true);
  expectSeenInTime(steps);
});

it('are seen again by a request that begins again, as what was seen may be gone', () => {
  const image = imageAt([0, 1, 2, 3]);
  const config = { ...CONFIG, numBlocks: 4, maxNumSeqs: 2, encoderCosts: COSTS };
  const scheduler = new Scheduler(config);
  scheduler.add({ ...requestOf(0, 20), stop: { ...requestOf(0, 20).stop, maxTokens: 30 } });
  scheduler.add({ ...requestOf(1, 20, [image]), stop: { ...requestOf(1, 20).stop, maxTokens: 30 } });
  const steps = run(scheduler);
  expect(scheduler.stats.preemptions).toBeGreaterThan(0);
  const numLayers = steps.flatMap(({ tileWork }) => tileWork).reduce((sum, work) => sum + work.numLayers, 0);
  expect(numLayers).toBe(2 * 2 * COSTS.numLayers);
});

describe('an image that a step computes whole', () => {
  const LARGEST = 40;
  const WHOLE = { ...CONFIG, wholeImageTokens: LARGEST };

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

  it('waits for room where what came from another instance ends inside it', () => {
    const scheduler = new Scheduler({ ...WHOLE, maxNumBatchedTokens: 43 });
    const image = imageAt(Array.from({ length: 40 }, (_, index) => 2 + index));
    scheduler.add(requestOf(0, 63));
    scheduler.add({ ...requestOf(1, 50, [image]), transfer: { kind: 'load', transferId: 5 } });
    const first = scheduler.schedule();
    scheduler.update(first, resultOf(first));
    scheduler.applyTransfer({ kind: 'loaded', transferId: 5, numTokens: 16 });
    expect([first, ...run(scheduler).slice(0, 2)].map(tokensIn)).toEqual([[43], [20], [1, 34]]);
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
