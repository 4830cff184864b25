// Reads published tensors from their files: weights for the reference backend, scales and such for all.

import { closeSync, readSync } from 'node:fs';
import { ModelLoadError, ShapeError } from '../errors.ts';
import { openModelFile } from '../util/model-file.ts';
import { unpackBlocks } from './block-formats.ts';
import {
  type ComputeDType,
  isBlockDType,
  isTernaryDType,
  numbersOfBlock,
  type StorageDType,
  storedBytes,
} from './dtype.ts';
import { type Rectangle, rectangleOf } from './expected-weights.ts';
import { roundTo, unpackBf16, unpackF16 } from './float-formats.ts';
import { unpackTernary } from './ternary-blocks.ts';
import type { TensorSource, TransposedWeightSource } from './weights.ts';

/** A file is read, and converted, in pieces of this size: small enough for the processor's cache. */
const PIECE_BYTES = 1 << 20;
/** Rows up to this size are read whole, though a part of each is wanted. */
const SHORT_ROW_BYTES = 1 << 13;

/**
 * Widens a tensor, or the rectangle of it that is wanted, to f32 and rounds it to what `dtype` can hold.
 * @param into Where the numbers go, as many as are wanted.
 * @throws ModelLoadError when the file ends before the tensor does, or one of its numbers is not finite.
 */
export function readTensor(source: TensorSource, dtype: ComputeDType, into?: Float32Array): Float32Array {
  const rectangle = rectangleOf('load', source);
  const values = into ?? new Float32Array(rectangle.rows * rectangle.cols);
  if (source.numbers) {
    copyRectangle(source.numbers, rectangle, values);
    roundTo(dtype, values);
    expectFinite(source, rectangle, values);
    return values;
  }
  const { dtype: stored } = source;
  if (stored === 'u8' || stored === 'i32' || stored === 'f8' || stored === 'i2_s') {
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
  if (source.dtype !== dtype) roundTo(dtype, values);
  expectFinite(source, rectangle, values);
  return values;
}

/**
 * Whole numbers, as they are before they are multiplied by scales: of i8, or of blocks of numbers from -1 to 1.
 * @throws ModelLoadError as `readTensor`, and where a code stands for no number.
 */
export function readWholeNumbers(source: TensorSource, into: Float32Array): void {
  const { dtype } = source;
  if (!isTernaryDType(dtype)) {
    readTensor(source, 'f32', into);
    return;
  }
  const { numbers, bytes } = blockOf(dtype);
  readPieces(source, rectangleOf('load', source), (piece, start) => {
    const first = (start / bytes) * numbers;
    const areNumbers = unpackTernary(dtype, piece, into.subarray(first));
    if (!areNumbers) throw noNumber(source);
  });
}

/** A square of so many numbers of two matrices fits in the first-level cache. */
const SQUARE = 64;

/**
 * The rows [n, k] of a weight that is published as its columns.
 * @throws ModelLoadError as `readTensor`.
 */
export function readTransposed(
  { tensor, shape: [n, k] }: TransposedWeightSource,
  dtype: ComputeDType,
  into: Float32Array = new Float32Array(n * k),
): Float32Array {
  const columns = readTensor(tensor, dtype);
  for (let firstRow = 0; firstRow < n; firstRow += SQUARE) {
    for (let firstCol = 0; firstCol < k; firstCol += SQUARE) {
      for (let row = firstRow; row < Math.min(firstRow + SQUARE, n); row++) {
        for (let col = firstCol; col < Math.min(firstCol + SQUARE, k); col++) {
          into[row * k + col] = columns[col * n + row]!;
        }
      }
    }
  }
  return into;
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

function copyRectangle(
  numbers: Float32Array,
  { rowLength, firstRow, firstCol, rows, cols }: Rectangle,
  into: Float32Array,
): void {
  for (let row = 0; row < rows; row++) {
    const start = (firstRow + row) * rowLength + firstCol;
    into.set(numbers.subarray(start, start + cols), row * cols);
  }
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
function storedPlace(place: number, { pairedRows, planeRows }: TensorSource): number {
  if (planeRows !== undefined) return place % planeRows;
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

/** Bytes that hold numbers of four rows -> those of `row`, in place. */
function unpackPlane(piece: Uint8Array, source: TensorSource, row: number): void {
  const { planeRows } = source;
  if (planeRows === undefined) return;
  const shift = 2 * Math.floor(row / planeRows);
  for (const [i, byte] of piece.entries()) {
    const code = (byte >> shift) & 3;
    if (code === 3) throw noNumber(source);
    piece[i] = code - 1;
  }
}

function noNumber({ name, path }: TensorSource): ModelLoadError {
  return new ModelLoadError(`tensor ${name} of ${path} has a code that stands for no number`);
}

/** The smallest unit of a file: so many numbers in so many bytes. */
function blockOf(dtype: StorageDType): { readonly numbers: number; readonly bytes: number } {
  const numbers = numbersOfBlock(dtype);
  return { numbers, bytes: storedBytes(dtype, numbers) };
}

/** Calls `take` with bytes of the rectangle, at the start of a buffer that is used again, and where they belong. */
function readPieces(
  source: TensorSource,
  rectangle: Rectangle,
  take: (piece: Uint8Array<ArrayBuffer>, start: number) => void,
): void {
  const { rowLength, firstRow, firstCol, rows, cols } = rectangle;
  const bytesOf = (count: number): number => storedBytes(source.dtype, count);
  const isInOrder = source.pairedRows === undefined && source.planeRows === undefined;
  const file = openModelFile(source.path);
  try {
    if (cols < rowLength && isInOrder && bytesOf(rowLength) <= SHORT_ROW_BYTES) {
      readShortRows(source, file, rectangle, take);
      return;
    }
    // Whole rows follow each other without a gap.
    const [numRuns, runBytes] =
      cols === rowLength && isInOrder ? [1, bytesOf(rows * cols)] : [rows, bytesOf(cols)];
    const { bytes } = blockOf(source.dtype);
    const buffer = new Uint8Array(Math.min(Math.floor(PIECE_BYTES / bytes) * bytes, runBytes));
    for (let run = 0; run < numRuns; run++) {
      const row = storedPlace(firstRow + run, source);
      const position = source.byteOffset + bytesOf(row * rowLength + firstCol);
      for (let start = 0; start < runBytes; start += buffer.length) {
        const piece = buffer.subarray(0, Math.min(buffer.length, runBytes - start));
        fill(piece, file, source, position + start);
        unpackPlane(piece, source, firstRow + run);
        take(piece, run * runBytes + start);
      }
    }
  } finally {
    closeSync(file);
  }
}

/** The same where a part of each row is wanted: whole rows are read, many at once, and cut. */
function readShortRows(
  source: TensorSource,
  file: number,
  { rowLength, firstRow, firstCol, rows, cols }: Rectangle,
  take: (piece: Uint8Array<ArrayBuffer>, start: number) => void,
): void {
  const bytesOf = (count: number): number => storedBytes(source.dtype, count);
  const [rowBytes, wanted, skipped] = [bytesOf(rowLength), bytesOf(cols), bytesOf(firstCol)];
  const atOnce = Math.min(rows, Math.floor(PIECE_BYTES / rowBytes));
  const [buffer, cut] = [new Uint8Array(atOnce * rowBytes), new Uint8Array(atOnce * wanted)];
  for (let row = 0; row < rows; row += atOnce) {
    const count = Math.min(atOnce, rows - row);
    fill(buffer.subarray(0, count * rowBytes), file, source, source.byteOffset + (firstRow + row) * rowBytes);
    for (let i = 0; i < count; i++) {
      const start = i * rowBytes + skipped;
      for (let byte = 0; byte < wanted; byte++) cut[i * wanted + byte] = buffer[start + byte]!;
    }
    take(cut.subarray(0, count * wanted), row * wanted);
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
