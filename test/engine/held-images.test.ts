import { describe, expect, it } from 'vitest';
import { HeldImages } from '../../src/engine/held-images.ts';
import { OverloadedError } from '../../src/errors.ts';
import type { PromptImage } from '../../src/images/image-processor.ts';

function imageOf(...bytesOfTiles: readonly number[]): PromptImage {
  const tiles = bytesOfTiles.map((length) => ({ rows: 1, cols: 1, patches: new Uint8Array(length) }));
  const colours = { factors: [1, 1, 1], offsets: [0, 0, 0] };
  return { image: { hash: '', tiles, colours, numTokens: 1 }, positions: [0] };
}

describe('HeldImages', () => {
  it('lets in what has room, and more when a request has ended', () => {
    const held = new HeldImages(100);
    held.hold('one', [imageOf(20, 30)]);
    const release = held.hold('one', [imageOf(25), imageOf(25)]);
    expect(() => held.hold('one', [imageOf(1)])).toThrow(OverloadedError);
    expect(() => held.hold('one', [imageOf(1)])).toThrow(/have 100 bytes of pixels, 100 of them yours/);
    held.hold('one', []);
    release();
    held.hold('one', [imageOf(50)]);
  });

  it('lets in any request that is alone', () => {
    const held = new HeldImages(100);
    const release = held.hold('one', [imageOf(1000)]);
    expect(() => held.hold('one', [imageOf(1)])).toThrow(OverloadedError);
    release();
    held.hold('one', [imageOf(1000)]);
  });

  it('lets in a caller with less than an equal share, whatever others have', () => {
    const held = new HeldImages(100);
    held.hold('one', [imageOf(100)]);
    expect(() => held.hold('other', [imageOf(51)])).toThrow(OverloadedError);
    const release = held.hold('other', [imageOf(50)]);
    expect(() => held.hold('other', [imageOf(1)])).toThrow(OverloadedError);
    held.hold('third', [imageOf(33)]);
    release();
    held.hold('other', [imageOf(33)]);
  });
});
