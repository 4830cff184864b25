import { describe, expect, it } from 'vitest';
import { HeldImages } from '../../src/engine/held-images.ts';
import { OverloadedError } from '../../src/errors.ts';

function opened(held: HeldImages, caller: string, numBytes = 0) {
  const images = held.open(caller);
  images.hold(numBytes);
  return images;
}

describe('HeldImages', () => {
  it('lets in what has room, and more when a request has ended', () => {
    const held = new HeldImages(100);
    opened(held, 'one', 50);
    const request = opened(held, 'one', 25);
    request.hold(25);
    expect(() => opened(held, 'one', 1)).toThrow(OverloadedError);
    expect(() => request.hold(1)).toThrow(/have 100 bytes of pixels, 100 of them yours/);
    opened(held, 'one');
    request.release();
    opened(held, 'one', 50);
    expect(() => opened(held, 'one', 1)).toThrow(OverloadedError);
  });

  it('lets in any request that is alone', () => {
    const held = new HeldImages(100);
    const request = opened(held, 'one', 1000);
    request.hold(1000);
    expect(() => opened(held, 'one', 1)).toThrow(OverloadedError);
    request.release();
    opened(held, 'one', 1000);
  });

  it('lets in a caller with less than an equal share, whatever others have', () => {
    const held = new HeldImages(100);
    opened(held, 'one', 100);
    expect(() => opened(held, 'other', 51)).toThrow(OverloadedError);
    const request = opened(held, 'other', 50);
    expect(() => opened(held, 'other', 1)).toThrow(OverloadedError);
    opened(held, 'third', 33);
    request.release();
    opened(held, 'other', 33);
  });
});
