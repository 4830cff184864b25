// What ops of the CPU backend compute for JavaScript: arrays that the addon fills when it comes to them.

import type { NativeBackend, StreamPlace } from '../../native/native.ts';
import type { Pending, SampledTokens } from '../ops.ts';

/** A thread that is to end meanwhile ends between two calls: a step may take seconds. */
const SLICE_MS = 100;

export class NativePending<T> implements Pending<T> {
  readonly native: NativeBackend;
  private readonly streamPlace: StreamPlace;
  private readonly result: () => T;

  /** @param result is called when the op at `streamPlace` has run. */
  constructor(native: NativeBackend, streamPlace: StreamPlace, result: () => T) {
    this.native = native;
    this.streamPlace = streamPlace;
    this.result = result;
  }

  read(): T {
    while (!this.native.await(this.streamPlace, SLICE_MS));
    return this.result();
  }
}

export class NativeSampledTokens extends NativePending<Int32Array> implements SampledTokens {
  /** What the addon fills; until then only the addon may look at it. */
  readonly unread: Int32Array;

  constructor(native: NativeBackend, streamPlace: StreamPlace, tokens: Int32Array) {
    super(native, streamPlace, () => tokens);
    this.unread = tokens;
  }
}
