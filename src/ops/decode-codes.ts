// What published codes encode, which as a weight is rounded to bf16: the definition of CodeFormat.

import { ModelLoadError } from '../errors.ts';
import { bitsOf, type CodeKind, groupsOf } from './dtype.ts';
import { unpackE4m3 } from './float-formats.ts';
import { readBytes } from './read-tensor.ts';
import { AWQ_PLACES, type StoredCodes } from './stored-codes.ts';
import type { CodesWeightSource } from './weights.ts';

/** Writes the numbers [n, k] that the codes of `source` encode to `into`. */
export function decodeCodes(source: CodesWeightSource, stored: StoredCodes, into: Float32Array): void {
  const { format, shape } = source;
  const [n, k] = shape;
  const [groups, groupSize] = [groupsOf(format, k), format.groupSize ?? k];
  const codeAt = codesOf(source);
  const meanings = meaningsOf(format.kind);
  for (let row = 0; row < n; row += 1) {
    for (let place = 0; place < k; place += 1) {
      const at = row * groups + Math.floor(place / groupSize);
      const column = stored.columns?.[place] ?? place;
      const number = meanings[codeAt(row, column)]!;
      if (Number.isNaN(number)) throw notANumber(source, row, column);
      into[row * k + column] = (number - (stored.zeros?.[at] ?? 0)) * stored.scales[at]!;
    }
  }
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

function codesOf({
  tensor,
  order,
  format,
  shape,
}: CodesWeightSource): (row: number, column: number) => number {
  const bytes = readBytes(tensor);
  const bits = bitsOf(format.kind);
  const [n] = shape;
  const [range, perWord, perByte] = [2 ** bits, 32 / bits, 8 / bits];
  // Whole numbers of 8 bits in words have 128 in the place of 0.
  const offset = format.kind === 'int8' && tensor.dtype === 'i32' ? 128 : 0;
  const rowBytes = bytes.length / n;
  const codeIn = (byte: number, place: number): number =>
    ((bytes[byte + Math.floor(place / perByte)]! >> ((place % perByte) * bits)) + offset) % range;
  if (order === 'rows') return (row, column) => codeIn(row * rowBytes, column);
  if (order === 'columns') {
    return (row, column) => codeIn((Math.floor(column / perWord) * n + row) * 4, column % perWord);
  }
  return (row, column) =>
    codeIn(((column * n) / perWord + Math.floor(row / perWord)) * 4, AWQ_PLACES[row % 8]!);
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
