// A file of bf16 numbers near zero that every weight of a kernel benchmark is read from.

import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { type TensorSource, wholeTensor } from '../../src/ops/weights.ts';

const CHUNK_NUMBERS = 1 << 22;

export class WeightFile {
  private readonly folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  private readonly path = join(this.folder, 'weights');

  /** @param count numbers that the largest weight has */
  constructor(count: number) {
    const file = openSync(this.path, 'w');
    // Bits of bf16 numbers from 0.0078 to 0.031, in an order that repeats late.
    const chunk = Uint16Array.from({ length: CHUNK_NUMBERS }, (_, i) => 0x3c00 + ((i * 40503) % 256));
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
