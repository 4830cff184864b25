// The rows that stand for tokens of images in a step, whatever was seen of them before.

import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import type { ImageRows } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { ImageEncoder } from '../../src/models/vision/image-encoder.ts';
import { EncodedImages } from '../../src/runner/encoded-images.ts';
import type { ScheduledStep, TileWork } from '../../src/scheduler/scheduled-step.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { openBackend } from '../helpers/backends.ts';
import { newRequest } from '../helpers/new-request.ts';
import { casesOf, FOLDER } from '../models/vision-cases.ts';

const MODEL = 'smolvlm';
type Case = ReturnType<typeof casesOf>[number];
const [first, second] = casesOf(MODEL).map((one, index) => ({
  ...one,
  // Some tiles of both are alike.
  images: one.images.map(({ image, positions }) => {
    return { image: { ...image, hash: `${index} ${image.hash}` }, positions };
  }),
})) as [Case, Case];
const ops = openBackend('reference');
let encoder: ImageEncoder;
beforeAll(async () => {
  const options = { dtype: 'float32', maxModelLen: null } as const;
  const model = await loadModel(openModelSource(`${FOLDER}/${MODEL}`), ops, options);
  encoder = model.imageEncoder!;
});
afterAll(() => ops.close());

/** That computes a prompt with images whole, or so many tokens of it. */
function stepOf({ ids, images }: Case, numTokens = 1000): ScheduledStep {
  const scheduler = new Scheduler({
    maxNumSeqs: 1,
    maxNumBatchedTokens: numTokens,
    numBlocks: 100,
    blockSize: 16,
    windows: [null],
    enablePrefixCaching: false,
    speculative: null,
  });
  scheduler.add(newRequest({ promptTokenIds: ids, images, stop: { maxTokens: 1 } }));
  return scheduler.schedule();
}

function rowsOf(encoded: EncodedImages, one: Case, numTokens = one.ids.length): ImageRows {
  return encoded.rowsOf(stepOf(one, numTokens), Int32Array.from([0, numTokens]))!;
}

const workOf = ({ images }: typeof first, tile: number, numLayers: number): TileWork => ({
  image: images[0]!.image,
  tile,
  numLayers,
});

it.each<[string, readonly TileWork[]]>([
  ['nothing', []],
  ['some layers', [workOf(first, 0, 1)]],
  ['all of it, in two steps', [workOf(first, 0, 1), workOf(first, 0, 1)]],
  ['more than there is', [workOf(first, 0, 99), workOf(first, 0, 1)]],
  ['some layers, and then others of another image', [workOf(first, 0, 1), workOf(second, 0, 1)]],
  ['the rest after another image', [workOf(first, 0, 1), workOf(second, 0, 2), workOf(first, 0, 1)]],
])('are the same where %s has been seen before', (_, work) => {
  const encoded = new EncodedImages(encoder);
  for (const one of work) encoded.see([one]);
  expect(rowsOf(encoded, first)).toEqual(rowsOf(new EncodedImages(encoder), first));
  expect(rowsOf(encoded, second)).toEqual(rowsOf(new EncodedImages(encoder), second));
});

it('are those of the places of their tokens', () => {
  const { rows, values } = rowsOf(new EncodedImages(encoder), first);
  expect(rows).toEqual(first.places);
  expect(values).toHaveLength(first.rows.values.length);
});

describe('what was seen', () => {
  /** How often something is seen of a tile meanwhile. */
  function numSeen(compute: () => void): number {
    const see = vi.spyOn(encoder, 'see');
    onTestFinished(() => see.mockRestore());
    see.mockClear();
    compute();
    return see.mock.calls.length;
  }

  /** The first image under other names, each seen whole. */
  const others = (count: number) =>
    Array.from({ length: count }, (_, index): TileWork => {
      const work = workOf(first, 0, 99);
      return { ...work, image: { ...work.image, hash: `other ${index}` } };
    });

  it('is kept for others where there is room', () => {
    const encoded = new EncodedImages(encoder);
    rowsOf(encoded, first);
    encoded.see(others(5));
    expect(numSeen(() => rowsOf(encoded, first))).toBe(0);
  });

  it('gives way once it has been used', () => {
    const encoded = new EncodedImages(encoder, 0);
    rowsOf(encoded, first);
    encoded.see(others(1));
    expect(numSeen(() => rowsOf(encoded, first))).toBe(first.tiles.length);
  });

  it('stays until it is used, whatever is seen meanwhile and used before', () => {
    const encoded = new EncodedImages(encoder, 0);
    encoded.see(others(1));
    rowsOf(encoded, first);
    encoded.see([workOf(first, 0, 99)]);
    expect(numSeen(() => encoded.see(others(1)))).toBe(0);
  });

  it('stays until its last token has been computed', () => {
    const encoded = new EncodedImages(encoder, 0);
    rowsOf(encoded, first, first.places[0]! + 1);
    encoded.see(others(1));
    expect(numSeen(() => encoded.see([workOf(first, 0, 99)]))).toBe(0);
  });

  it('gives way in the order of its last use', () => {
    const numBytes = first.rows.values.byteLength + second.rows.values.byteLength;
    const encoded = new EncodedImages(encoder, numBytes);
    for (const one of [first, second, first]) rowsOf(encoded, one);
    encoded.see(others(1));
    expect(numSeen(() => rowsOf(encoded, first))).toBe(0);
    expect(numSeen(() => rowsOf(encoded, second))).toBeGreaterThan(0);
  });

  it('goes on layer by layer', () => {
    const begin = vi.spyOn(encoder, 'begin');
    onTestFinished(() => begin.mockRestore());
    const encoded = new EncodedImages(encoder);
    for (let layer = 0; layer < encoder.numLayers; layer++) encoded.see([workOf(first, 0, 1)]);
    expect(begin).toHaveBeenCalledOnce();
    expect(numSeen(() => encoded.see([workOf(first, 0, 99)]))).toBe(0);
  });

  it('gives way unused where a third one comes, for its request may have been cancelled', () => {
    const encoded = new EncodedImages(encoder, 0);
    encoded.see([workOf(first, 0, 99), ...others(2)]);
    expect(numSeen(() => encoded.see([workOf(first, 0, 99)]))).toBe(1);
  });
});
