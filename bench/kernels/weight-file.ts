// A file of numbers near zero that every weight of a kernel benchmark is read from: in bf16, and in 2 bits.

import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { type LinearPart, type TensorSource, wholeTensor } from '../../src/ops/weights.ts';
import { Random } from '../../test/helpers/random.ts';

const CHUNK_NUMBERS = 1 << 22;

export class WeightFile {
  private readonly folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  private readonly path = join(this.folder, 'weights');
  private readonly codes = join(this.folder, 'codes');

  /** @param count numbers that the largest weight has */
  constructor(count: number) {
    // Bits of bf16 numbers of any sign and a size of 0.0078 to 0.031: an order that repeats costs a GPU less power, and so less time.
    const random = new Random(1);
    const chunk = Uint16Array.from({ length: CHUNK_NUMBERS }, () => {
      const bits = random.integer(0, 511);
      return ((bits & 256) << 7) | (0x3c00 + (bits & 255));
    });
    writeRepeated(this.path, chunk, count);
    // Each byte has four numbers of 0, 1 and 2.
    const codes = Uint8Array.from({ length: CHUNK_NUMBERS / 4 }, () =>
      [0, 2, 4, 6].reduce((byte, shift) => byte | (random.integer(0, 2) << shift), 0),
    );
    writeRepeated(this.codes, codes, Math.ceil(count / 4));
  }

  source(shape: readonly [number, number]): TensorSource {
    const byteLength = shape[0] * shape[1] * 2;
    return wholeTensor({ name: 'weight', path: this.path, byteOffset: 0, byteLength, dtype: 'bf16', shape });
  }

  /** Numbers from -1 to 1. */
  ternary([n, k]: readonly [number, number]): LinearPart {
    const planeRows = n / 4;
    const file = { path: this.codes, byteOffset: 0, byteLength: planeRows * k };
    const tensor = wholeTensor({ name: 'weight', ...file, dtype: 'i8', shape: [n, k], planeRows });
    const numbers = new Float32Array(n).fill(0.01);
    const scales = { name: 'scales', path: this.codes, byteOffset: 0, byteLength: numbers.byteLength };
    const made = { ...wholeTensor({ ...scales, dtype: 'f32', shape: [n, 1] }), numbers };
    return { weight: { kind: 'int8', tensor, scales: made }, bias: null };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }
}

function writeRepeated(path: string, chunk: Uint16Array | Uint8Array, count: number): void {
  const file = openSync(path, 'w');
  for (let done = 0; done < count; done += chunk.length) {
    writeSync(file, chunk.subarray(0, Math.min(chunk.length, count - done)));
  }
  closeSync(file);
}
