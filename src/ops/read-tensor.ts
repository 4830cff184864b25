// Reads published tensors from their files: weights for the reference backend, scales and such for all.

import { closeSync, readSync } from 'node:fs';
import { ModelLoadError, ShapeError } from '../errors.ts';
import { openModelFile } from '../util/model-file.ts';
import { unpackBlocks } from './block-formats.ts';
import { type ComputeDType, isBlockDType, numbersOfBlock, type StorageDType, storedBytes } from './dtype.ts';
import { roundToBf16, unpackBf16, unpackF16 } from './float-formats.ts';
import { type Rectangle, rectangleOf, type TensorSource } from './weights.ts';

/** A file is read, and converted, in pieces of this size: small enough for the processor's cache. */
const PIECE_BYTES = 1 << 20;

/**
 * Widens a tensor, or the rectangle of it that is wanted, to f32 and rounds it to what `dtype` can hold.
 * @param into Where the numbers go, as many as are wanted.
 * @throws ModelLoadError when the file ends before the tensor does, or one of its numbers is not finite.
 */
export function readTensor(source: TensorSource, dtype: ComputeDType, into?: Float32Array): Float32Array {
  const rectangle = rectangleOf('load', source);
  const values = into ?? new Float32Array(rectangle.rows * rectangle.cols);
  const { dtype: stored } = source;
  if (stored === 'u8' || stored === 'i32' || stored === 'f8') {
    throw new ShapeError('load', `numbers in ${source.name}`, stored);
  }
  const { numbers, bytes } = blockOf(stored);
  readPieces(source, rectangle, (piece, start) => {
    const first = (start / bytes) * numbers;
    const place = values.subarray(first, first + (piece.length / bytes) * numbers);
    if (stored === 'f32') place.set(new Float32Array(piece.buffer, 0, place.length));
    else if (stored === 'i8') place.set(new Int8Array(piece.buffer, 0, place.length));
    else if (isBlockDType(stored)) unpackBlocks(stored, piece, place);
    else unpack(stored, new Uint16Array(piece.buffer, 0, place.length), place);
  });
  if (source.shape.length === 1) orderVector(source, values);
  if (dtype === 'bf16' && source.dtype !== 'bf16') roundToBf16(values);
  expectFinite(source, rectangle, values);
  return values;
}

/**
 * The bytes of what `source` loads, as they are in the file.
 * @throws ModelLoadError when the file ends before the tensor does.
 */
export function readBytes(source: TensorSource): Uint8Array<ArrayBuffer> {
  const rectangle = rectangleOf('load', source);
  const bytes = new Uint8Array(storedBytes(source.dtype, rectangle.rows * rectangle.cols));
  readPieces(source, rectangle, (piece, start) => bytes.set(piece, start));
  return bytes;
}

function expectFinite(source: TensorSource, rectangle: Rectangle, values: Float32Array): void {
  const at = values.findIndex((value) => !Number.isFinite(value));
  if (at < 0) return;
  const { cols, firstRow, firstCol } = rectangle;
  const [row, col] = [firstRow + Math.floor(at / cols), firstCol + (at % cols)];
  const place = source.storedShape.length > 1 ? `${row}, ${col}` : `${col}`;
  throw new ModelLoadError(
    `tensor ${source.name} of ${source.path} is not finite at [${place}]: NaN, infinite or too large; fetch the file again`,
  );
}

function unpack(dtype: 'f16' | 'bf16', packed: Uint16Array, into: Float32Array): void {
  if (dtype === 'bf16') unpackBf16(packed, into);
  else unpackF16(packed, into);
}

/** Where a row, or a number of a vector, is in the file. */
function storedPlace(place: number, { pairedRows }: TensorSource): number {
  if (pairedRows === undefined) return place;
  const inHead = place % pairedRows;
  const half = pairedRows / 2;
  return place - inHead + 2 * (inHead % half) + Math.floor(inHead / half);
}

/** Whole vectors only. */
function orderVector(source: TensorSource, values: Float32Array): void {
  if (source.pairedRows === undefined) return;
  const stored = values.slice();
  for (const place of stored.keys()) values[place] = stored[storedPlace(place, source)]!;
}

/** What is read as a whole: so many numbers in so many bytes. */
function blockOf(dtype: StorageDType): { readonly numbers: number; readonly bytes: number } {
  const numbers = numbersOfBlock(dtype);
  return { numbers, bytes: storedBytes(dtype, numbers) };
}

/** Calls `take` with bytes of the rectangle, at the start of a buffer that is used again, and where they belong. */
function readPieces(
  source: TensorSource,
  { rowLength, firstRow, firstCol, rows, cols }: Rectangle,
  take: (piece: Uint8Array<ArrayBuffer>, start: number) => void,
): void {
  const bytesOf = (count: number): number => storedBytes(source.dtype, count);
  // Whole rows follow each other without a gap.
  const isOneRun = cols === rowLength && source.pairedRows === undefined;
  const [numRuns, runBytes] = isOneRun ? [1, bytesOf(rows * cols)] : [rows, bytesOf(cols)];
  const { bytes } = blockOf(source.dtype);
  const buffer = new Uint8Array(Math.min(Math.floor(PIECE_BYTES / bytes) * bytes, runBytes));
  const file = openModelFile(source.path);
  try {
    for (let run = 0; run < numRuns; run++) {
      const row = storedPlace(firstRow + run, source);
      const position = source.byteOffset + bytesOf(row * rowLength + firstCol);
      for (let start = 0; start < runBytes; start += buffer.length) {
        const piece = buffer.subarray(0, Math.min(buffer.length, runBytes - start));
        fill(piece, file, source, position + start);
        take(piece, run * runBytes + start);
      }
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
