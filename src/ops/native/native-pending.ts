// Results of native ops for JavaScript: arrays that the addon fills when it runs the op.

import type { NativeBackend, StreamPosition } from '../../native/native-backend.ts';
import type { Pending, SampledTokens } from '../ops.ts';
import { asOpsError } from './native-errors.ts';

/** A step may take seconds: a thread that is being ended can end between two calls of `await`. */
const SLICE_MS = 100;

export class NativePending<T> implements Pending<T> {
  readonly native: NativeBackend;
  readonly #position: StreamPosition;
  readonly #result: () => T;

  /** @param result is called when the op at `position` has run. */
  constructor(native: NativeBackend, position: StreamPosition, result: () => T) {
    this.native = native;
    this.#position = position;
    this.#result = result;
  }

  read(): T {
    try {
      while (!this.native.await(this.#position, SLICE_MS));
    } catch (error) {
      throw asOpsError(error);
    }
    return this.#result();
  }
}

export class NativeSampledTokens extends NativePending<Int32Array> implements SampledTokens {
  /** The addon fills it; before `read` returns only the addon may look at it. */
  readonly unread: Int32Array;

  constructor(native: NativeBackend, position: StreamPosition, tokens: Int32Array) {
    super(native, position, () => tokens);
    this.unread = tokens;
  }
}
