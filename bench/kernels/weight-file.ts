// A file of bf16 numbers near zero that every weight of a kernel benchmark is read from.

import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { type TensorSource, wholeTensor } from '../../src/ops/weights.ts';
import { Random } from '../../test/helpers/random.ts';

const CHUNK_NUMBERS = 1 << 22;

export class WeightFile {
  private readonly folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  private readonly path = join(this.folder, 'weights');

  /** @param count numbers that the largest weight has */
  constructor(count: number) {
    const file = openSync(this.path, 'w');
    // Bits of bf16 numbers of any sign and a size of 0.0078 to 0.031: an order that repeats costs a GPU less power, and so less time.
    const random = new Random(1);
    const chunk = Uint16Array.from({ length: CHUNK_NUMBERS }, () => {
      const bits = random.integer(0, 511);
      return ((bits & 256) << 7) | (0x3c00 + (bits & 255));
    });
    for (let done = 0; done < count; done += CHUNK_NUMBERS) {
      writeSync(file, chunk.subarray(0, Math.min(CHUNK_NUMBERS, count - done)));
    }
    closeSync(file);
  }

  source(shape: readonly [number, number]): TensorSource {
    const byteLength = shape[0] * shape[1] * 2;
    return wholeTensor({ name: 'weight', path: this.path, byteOffset: 0, byteLength, dtype: 'bf16', shape });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }
}
