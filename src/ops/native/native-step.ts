// The handle of the arrays of one step, which the addon has checked and copied.

import type { NativeBackend } from '../../native/native-backend.ts';
import { distinctAdapters } from '../lora.ts';
import type { KvCache, StepArrays, StepInputs } from '../ops.ts';

export class NativeStepInputs implements StepInputs {
  readonly native: NativeBackend;
  /** Counts the steps of the backend: the addon refuses all but the last one. */
  readonly id: number;
  readonly cache: KvCache;
  readonly numTokens: number;
  readonly adapters: ReadonlySet<number>;

  constructor(native: NativeBackend, id: number, cache: KvCache, { positions, adapters }: StepArrays) {
    this.native = native;
    this.id = id;
    this.cache = cache;
    this.numTokens = positions.length;
    this.adapters = distinctAdapters(adapters);
  }
}
