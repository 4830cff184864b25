// Weights for op tests: numbers written to a file, named as a checkpoint would name them.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { StorageDType } from '../../src/ops/dtype.ts';
import { packBf16 } from '../../src/ops/float-formats.ts';
import { type TensorSource, wholeTensor } from '../../src/ops/weights.ts';
import { packF16 } from './pack-f16.ts';

export class WeightFolder {
  readonly path = mkdtempSync(join(os.tmpdir(), 'svc-weights-'));
  #count = 0;

  /** A file of its own with `values` after a few bytes that are not theirs. */
  write(shape: readonly number[], values: ArrayLike<number>, dtype: StorageDType = 'f32'): TensorSource {
    return this.writeBytes(shape, pack(Float32Array.from(values), dtype), dtype);
  }

  /** The same of bytes as they are in the file. */
  writeBytes(shape: readonly number[], bytes: Uint8Array, dtype: StorageDType): TensorSource {
    const name = `weight-${this.#count++}`;
    const path = join(this.path, name);
    const before = Buffer.from('abcde');
    writeFileSync(path, Buffer.concat([before, bytes]));
    return wholeTensor({ name, path, byteOffset: before.length, byteLength: bytes.length, dtype, shape });
  }

  remove(): void {
    rmSync(this.path, { recursive: true });
  }
}

function pack(values: Float32Array, dtype: StorageDType): Uint8Array {
  if (dtype === 'f32') return new Uint8Array(values.buffer);
  const packed = new Uint16Array(values.length);
  if (dtype === 'bf16') packBf16(values, packed);
  else packF16(values, packed);
  return new Uint8Array(packed.buffer);
}
