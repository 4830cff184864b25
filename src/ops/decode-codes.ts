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
  const readRow = rowReader(source);
  const meanings = meaningsOf(format.kind);
  const codes = new Uint8Array(k);
  for (let row = 0; row < n; row += 1) {
    readRow(row, codes);
    for (let group = 0; group < groups; group += 1) {
      const at = row * groups + group;
      const [scale, zero] = [scales[at]!, zeros === null ? 0 : zeros[at]!];
      const end = Math.min((group + 1) * groupSize, k);
      for (let place = group * groupSize; place < end; place += 1) {
        const column = columns === null ? place : columns[place]!;
        const number = meanings[codes[column]!]!;
        if (Number.isNaN(number)) throw notANumber(source, row, column);
        into[row * k + column] = (number - zero) * scale;
      }
    }
  }
  return into;
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

/** Writes the codes of a row, in the order of the inputs. */
type RowReader = (row: number, codes: Uint8Array) => void;

function rowReader({ tensor, order, format, shape }: CodesWeightSource): RowReader {
  const bytes = readBytes(tensor);
  const bits = bitsOf(format.kind);
  const [n] = shape;
  const [range, perWord, perByte] = [2 ** bits, 32 / bits, 8 / bits];
  // Whole numbers of 8 bits in words have 128 in the place of 0.
  const offset = format.kind === 'int8' && tensor.dtype === 'i32' ? 128 : 0;
  const codeIn = (byte: number, place: number): number =>
    ((bytes[byte + Math.floor(place / perByte)]! >> ((place % perByte) * bits)) + offset) % range;
  if (order === 'awq') {
    return (row, codes) => {
      const [block, place] = [Math.floor(row / perWord), AWQ_PLACES[row % perWord]!];
      for (let column = 0; column < codes.length; column += 1) {
        codes[column] = codeIn(((column * n) / perWord + block) * 4, place);
      }
    };
  }
  const [rowBytes, wordBytes] = order === 'rows' ? [bytes.length / n, 4] : [4, 4 * n];
  return (row, codes) => {
    for (let column = 0; column < codes.length; column += 1) {
      const word = Math.floor(column / perWord);
      codes[column] = codeIn(row * rowBytes + word * wordBytes, column % perWord);
    }
  };
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
