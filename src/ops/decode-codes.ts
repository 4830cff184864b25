// What published codes encode, which as a weight is rounded to bf16: the definition of CodeFormat.

import { ModelLoadError } from '../errors.ts';
import { bitsOf, type CodeKind, groupsOf } from './dtype.ts';
import { unpackE4m3 } from './float-formats.ts';
import { readBytes } from './read-tensor.ts';
import { AWQ_PLACES, readStoredCodes, type StoredCodes } from './stored-codes.ts';
import type { CodesWeightSource } from './weights.ts';

/** The numbers [n, k] that the codes of `source` encode; `stored` is what is published beside them. */
export function decodeCodes(
  source: CodesWeightSource,
  stored: StoredCodes = readStoredCodes(source),
  into: Float32Array = new Float32Array(source.shape[0] * source.shape[1]),
): Float32Array {
  const { format, shape } = source;
  const [n, k] = shape;
  const { scales, zeros, columns } = stored;
  const [groups, groupSize] = [groupsOf(format, k), format.groupSize ?? k];
  const bytes = readBytes(source.tensor);
  const codes = new Uint8Array(Math.ceil(k / 8) * 8);
  const inGroup = new Float32Array(2 ** bitsOf(format.kind));
  const meanings = meaningsOf(format.kind);
  const meaningless = [...meanings.keys()].filter((code) => Number.isNaN(meanings[code]));
  for (let row = 0; row < n; row += 1) {
    readRow(source, bytes, row, codes);
    for (const code of meaningless) {
      const column = codes.indexOf(code);
      if (column >= 0 && column < k) throw notANumber(source, row, column);
    }
    const numbers = into.subarray(row * k, (row + 1) * k);
    for (let group = 0; group < groups; group += 1) {
      const at = row * groups + group;
      tabulate(meanings, zeros === null ? 0 : zeros[at]!, scales[at]!, inGroup);
      const end = Math.min((group + 1) * groupSize, k);
      if (columns === null) lookUp(inGroup, codes, group * groupSize, end, numbers);
      else lookUpAt(inGroup, codes, columns.subarray(group * groupSize, end), numbers);
    }
  }
  return into;
}

function tabulate(meanings: Float32Array, zero: number, scale: number, into: Float32Array): void {
  for (let code = 0; code < into.length; code += 1) into[code] = (meanings[code]! - zero) * scale;
}

function lookUp(
  table: Float32Array,
  codes: Uint8Array,
  begin: number,
  end: number,
  numbers: Float32Array,
): void {
  for (let column = begin; column < end; column += 1) numbers[column] = table[codes[column]!]!;
}

function lookUpAt(table: Float32Array, codes: Uint8Array, columns: Int32Array, numbers: Float32Array): void {
  for (const column of columns) numbers[column] = table[codes[column]!]!;
}

function notANumber(
  { tensor: { name, path } }: CodesWeightSource,
  row: number,
  column: number,
): ModelLoadError {
  return new ModelLoadError(
    `tensor ${name} of ${path} is not finite at [${row}, ${column}]: NaN; fetch the file again`,
  );
}

/** Writes the codes of a row in the order of its inputs, and what pads them. */
function readRow(
  { tensor, order, format, shape }: CodesWeightSource,
  bytes: Uint8Array,
  row: number,
  codes: Uint8Array,
): void {
  const [n, k] = shape;
  const bits = bitsOf(format.kind);
  if (order === 'awq') {
    const [block, place] = [Math.floor(row / 8), AWQ_PLACES[row % 8]!];
    readNibbles(bytes, block * 4 + (place >> 1), n / 2, (place & 1) * 4, codes.subarray(0, k));
    return;
  }
  const [first, stride] = order === 'rows' ? [(bytes.length / n) * row, 4] : [4 * row, 4 * n];
  // Whole numbers of 8 bits in words have 128 in the place of 0.
  const offset = format.kind === 'int8' && tensor.dtype === 'i32' ? 128 : 0;
  if (bits === 4) readWordsOfNibbles(bytes, first, stride, codes);
  else readWordsOfBytes(bytes, first, stride, offset, codes);
}

/** A code a byte, `shift` bits up, each so many bytes behind the one before it. */
function readNibbles(
  bytes: Uint8Array,
  first: number,
  stride: number,
  shift: number,
  codes: Uint8Array,
): void {
  for (let i = 0, at = first; i < codes.length; i += 1, at += stride) codes[i] = (bytes[at]! >> shift) & 15;
}

function readWordsOfNibbles(bytes: Uint8Array, first: number, stride: number, codes: Uint8Array): void {
  for (let i = 0, at = first; i < codes.length; i += 8, at += stride) {
    for (let byte = 0; byte < 4; byte += 1) {
      codes[i + 2 * byte] = bytes[at + byte]! & 15;
      codes[i + 2 * byte + 1] = bytes[at + byte]! >> 4;
    }
  }
}

function readWordsOfBytes(
  bytes: Uint8Array,
  first: number,
  stride: number,
  offset: number,
  codes: Uint8Array,
): void {
  for (let i = 0, at = first; i < codes.length; i += 4, at += stride) {
    for (let byte = 0; byte < 4; byte += 1) codes[i + byte] = bytes[at + byte]! + offset;
  }
}

const FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6] as const;

/** By code. */
function meaningsOf(kind: CodeKind): Float32Array {
  const codes = Uint8Array.from({ length: 2 ** bitsOf(kind) }, (_, code) => code);
  if (kind === 'int4') return Float32Array.from(codes, (code) => code - 8);
  if (kind === 'int8') return Float32Array.from(new Int8Array(codes.buffer));
  if (kind === 'fp4') return Float32Array.from(codes, (code) => (code < 8 ? FP4[code]! : -FP4[code - 8]!));
  const meanings = new Float32Array(codes.length);
  unpackE4m3(codes, meanings);
  return meanings;
}
