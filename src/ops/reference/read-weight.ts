// Reads published weights from their files for the reference backend.

import { closeSync, readSync } from 'node:fs';
import { ModelLoadError, ShapeError } from '../../errors.ts';
import { openModelFile } from '../../util/model-file.ts';
import { BYTES_PER_ELEMENT, type ComputeDType, type StorageDType } from '../dtype.ts';
import { roundToBf16, unpackBf16, unpackF16 } from '../float-formats.ts';
import type { TensorSource } from '../ops.ts';

/** A file is read, and converted, in pieces of this size: small enough for the processor's cache. */
const PIECE_BYTES = 1 << 20;

/**
 * Widens a tensor to f32 and rounds it to what `dtype` can hold.
 * @param into Where the numbers go, as many as the tensor has.
 * @throws ModelLoadError when the file ends before the tensor does, or one of its numbers is not finite.
 */
export function readWeight(
  source: TensorSource,
  dtype: ComputeDType,
  into: Float32Array = new Float32Array(countOf(source)),
): Float32Array {
  const size = BYTES_PER_ELEMENT[source.dtype];
  readPieces(source, (piece, start) => {
    const place = into.subarray(start / size, (start + piece.length) / size);
    if (source.dtype === 'f32') place.set(new Float32Array(piece.buffer, 0, place.length));
    else unpack(source.dtype, new Uint16Array(piece.buffer, 0, place.length), place);
  });
  if (dtype === 'bf16' && source.dtype !== 'bf16') roundToBf16(into);
  expectFinite(source, into);
  return into;
}

function expectFinite({ name, path, shape }: TensorSource, values: Float32Array): void {
  const at = values.findIndex((value) => !Number.isFinite(value));
  if (at < 0) return;
  const cols = shape.at(-1)!;
  const place = shape.length > 1 ? `${Math.floor(at / cols)}, ${at % cols}` : `${at}`;
  throw new ModelLoadError(
    `tensor ${name} of ${path} is not finite at [${place}]: NaN, infinite or too large; fetch the file again`,
  );
}

function unpack(dtype: StorageDType, packed: Uint16Array, into: Float32Array): void {
  if (dtype === 'bf16') unpackBf16(packed, into);
  else unpackF16(packed, into);
}

function countOf({ name, shape, dtype, byteLength }: TensorSource): number {
  const count = shape.reduce((product, size) => product * size, 1);
  const bytes = count * BYTES_PER_ELEMENT[dtype];
  if (bytes === byteLength) return count;
  throw new ShapeError('load', `${bytes} bytes for ${name} [${shape.join(', ')}] ${dtype}`, `${byteLength}`);
}

/** Calls `take` with the tensor's bytes, at the start of a buffer that is used again, and where they belong. */
function readPieces(
  source: TensorSource,
  take: (piece: Uint8Array<ArrayBuffer>, start: number) => void,
): void {
  const { path, byteOffset, byteLength } = source;
  const buffer = new Uint8Array(Math.min(PIECE_BYTES, byteLength));
  const file = openModelFile(path);
  try {
    for (let start = 0; start < byteLength; start += buffer.length) {
      const piece = buffer.subarray(0, Math.min(buffer.length, byteLength - start));
      fill(piece, file, source, byteOffset + start);
      take(piece, start);
    }
  } finally {
    closeSync(file);
  }
}

/** One call may give less than was asked for. */
function fill(piece: Uint8Array, file: number, source: TensorSource, position: number): void {
  for (let done = 0; done < piece.length; ) {
    const got = readSync(file, piece, done, piece.length - done, position + done);
    if (got === 0) {
      const found = position + done - source.byteOffset;
      throw new ModelLoadError(
        `${source.path} ends inside tensor ${source.name}: ${source.byteLength} bytes expected, ${found} found; ` +
          'the file is cut off, fetch it again',
      );
    }
    done += got;
  }
}
