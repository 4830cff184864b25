// Random numbers that are the same in every run.

import type { ComputeDType } from '../../src/ops/dtype.ts';
import { roundTo } from '../../src/ops/float-formats.ts';

/** A repeatable stream of numbers. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  integer(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** Numbers in [-1, 1), already rounded to what `dtype` holds. */
  floats(count: number, dtype: ComputeDType = 'f32'): Float32Array {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i += 1) values[i] = this.next() * 2 - 1;
    roundTo(dtype, values);
    return values;
  }

  /** 0 to count - 1, shuffled. */
  permutation(count: number): Int32Array {
    const values = Int32Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i -= 1) {
      const j = this.integer(0, i);
      [values[i], values[j]] = [values[j]!, values[i]!];
    }
    return values;
  }
}
