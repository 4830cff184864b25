// Reads published weights from their files for the reference backend.

import { closeSync, openSync, readSync } from 'node:fs';
import { ModelLoadError, ShapeError } from '../../errors.ts';
import { BYTES_PER_ELEMENT, type ComputeDType, type StorageDType } from '../dtype.ts';
import { roundToBf16, unpackBf16, unpackF16 } from '../float-formats.ts';
import type { TensorSource } from '../ops.ts';

/** One read call takes at most this many bytes: Node allows less than 2 GiB. */
const READ_BYTES = 1 << 26;

/** Numbers as published: f32, or the bits of f16 or bf16. */
export interface StoredNumbers {
  readonly dtype: StorageDType;
  readonly data: Float32Array | Uint16Array;
}

/** @throws ModelLoadError when the file ends before the tensor does. */
export function readStored(source: TensorSource): StoredNumbers {
  const count = source.shape.reduce((product, size) => product * size, 1);
  const bytes = count * BYTES_PER_ELEMENT[source.dtype];
  if (bytes !== source.byteLength) {
    const shape = `[${source.shape.join(', ')}] ${source.dtype}`;
    throw new ShapeError('readStored', `${bytes} bytes for ${source.name} ${shape}`, `${source.byteLength}`);
  }
  const data = source.dtype === 'f32' ? new Float32Array(count) : new Uint16Array(count);
  readBytes(source, new Uint8Array(data.buffer));
  return { dtype: source.dtype, data };
}

/** Widened to f32, then rounded to what `dtype` can hold. */
export function readWeight(source: TensorSource, dtype: ComputeDType): Float32Array {
  const stored = readStored(source);
  const values = widen(stored.dtype, stored.data);
  if (dtype === 'bf16' && stored.dtype !== 'bf16') roundToBf16(values);
  return values;
}

/** The f32 form of stored numbers; f32 itself is not copied. */
export function widen(dtype: StorageDType, data: Float32Array | Uint16Array): Float32Array {
  if (data instanceof Float32Array) return data;
  const values = new Float32Array(data.length);
  if (dtype === 'bf16') unpackBf16(data, values);
  else unpackF16(data, values);
  return values;
}

function readBytes(source: TensorSource, into: Uint8Array): void {
  const file = openSync(source.path, 'r');
  try {
    for (let done = 0; done < into.length; ) {
      const want = Math.min(READ_BYTES, into.length - done);
      const got = readSync(file, into, done, want, source.byteOffset + done);
      if (got === 0) {
        throw new ModelLoadError(
          `${source.path} ends inside tensor ${source.name}: ${into.length} bytes expected, ${done} found; ` +
            'the file is cut off, fetch it again',
        );
      }
      done += got;
    }
  } finally {
    closeSync(file);
  }
}
