// The numbers that are published beside the codes of a weight, in one form for every backend: a scale and a zero for each group and
// output, and the order of the inputs. They are checked here, once.

import { ModelLoadError } from '../errors.ts';
import { bitsOf, type CodeKind, groupsOf, type WeightFormat } from './dtype.ts';
import { unpackE4m3 } from './float-formats.ts';
import { readBytes, readTensor } from './read-tensor.ts';
import type { CodesWeightSource, LinearPart, StoredScales, TensorSource } from './weights.ts';

export interface StoredCodes {
  /** [n, groups] 0 or more; the largest code times its scale is a number of bf16. */
  readonly scales: Float32Array;
  /** [n, groups] in units of the codes' meanings; null where there are none. */
  readonly zeros: Float32Array | null;
  /** [k] the input at each place, of which a group has `groupSize`; null where each input is at its own. */
  readonly columns: Int32Array<ArrayBuffer> | null;
}

/** The largest size that a code can mean, less a zero. */
const MOST: Readonly<Record<CodeKind, number>> = { int4: 15, fp4: 6, int8: 255, fp8: 448 };
const BF16_MOST = 3.38e38;

/** The place in a word in which AWQ keeps each of eight outputs. */
export const AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7] as const;

/** @throws ModelLoadError naming the tensor and its first wrong output or input. */
export function readStoredCodes(source: CodesWeightSource): StoredCodes {
  const [n, k] = source.shape;
  const groups = groupsOf(source.format, k);
  return {
    scales: readScales(source, n, groups),
    zeros: readZeros(source, n, groups),
    columns: source.inputGroups && readColumns(source.inputGroups, k, groups),
  };
}

/**
 * The numbers beside the codes of each part that is kept in them, null for parts without codes.
 * @throws ModelLoadError where parts that take one input order it differently, and where `readStoredCodes` does.
 */
export function readCodesOfParts(parts: readonly LinearPart[], format: WeightFormat): (StoredCodes | null)[] {
  if (format === 'int8') return parts.map(() => null);
  const codes = parts.map(({ weight }) => (weight.kind === 'codes' ? readStoredCodes(weight) : null));
  const orders = codes.map((stored) => stored?.columns?.join() ?? null);
  const other = orders.findIndex((order) => order !== orders[0]);
  if (other < 0) return codes;
  const [first, second] = [parts[0]!, parts[other]!].map(({ weight }) => weight.tensor);
  throw new ModelLoadError(
    `${first!.path}: ${first!.name} and ${second!.name} are multiplied together, and their groups (g_idx) order the inputs differently; ` +
      'use a release of the model that was quantised with desc_act false (actorder null), or --quantization int8',
  );
}

function readScales({ scales, format, shape }: CodesWeightSource, n: number, groups: number): Float32Array {
  const { tensor, isTransposed, outputs, before = 0 } = scales;
  const stored = readNumbers(scales);
  // Those of the smallest numbers are 0 in 8 bits.
  const mayBeZero = tensor.dtype === 'f8';
  const most = BF16_MOST / MOST[format.kind];
  const rows = Math.ceil((before + n) / outputs);
  const values = new Float32Array(n * groups);
  for (let row = 0; row < n; row += 1) {
    const storedRow = Math.floor((before + row) / outputs);
    for (let group = 0; group < groups; group += 1) {
      const scale = stored[isTransposed ? group * rows + storedRow : storedRow * groups + group]!;
      if ((scale > 0 || (mayBeZero && scale === 0)) && scale <= most) values[row * groups + group] = scale;
      else throw wrongScale(tensor, scale, storedRow, group, shape);
    }
  }
  return values;
}

function wrongScale(
  { name, path }: TensorSource,
  scale: number,
  row: number,
  group: number,
  shape: readonly number[],
): ModelLoadError {
  const why = scale > 0 ? 'small enough for numbers of bfloat16' : 'above 0';
  return new ModelLoadError(
    `tensor ${name} of ${path} must be ${why}, row ${row}, group ${group} of the weight [${shape.join(', ')}] is ${scale}; ` +
      'fetch the file again',
  );
}

function readNumbers({ tensor, ofAll }: StoredScales): Float32Array {
  const numbers = readEach(tensor);
  if (ofAll === undefined) return numbers;
  const { name, path } = ofAll.tensor;
  const factor = readTensor(ofAll.tensor, 'f32')[0]!;
  if (factor <= 0) {
    throw new ModelLoadError(
      `tensor ${name} of ${path} must be above 0, it is ${factor}; fetch the file again`,
    );
  }
  return numbers.map((number) => (ofAll.divides ? number / factor : number * factor));
}

function readEach(tensor: TensorSource): Float32Array {
  if (tensor.dtype === 'u8') return readPowers(tensor);
  if (tensor.dtype !== 'f8') return readTensor(tensor, 'f32');
  const codes = readBytes(tensor);
  const numbers = new Float32Array(codes.length);
  unpackE4m3(codes, numbers);
  return numbers;
}

/** Powers of 2 by their exponents (e8m0); 255 is NaN there. */
function readPowers(tensor: TensorSource): Float32Array {
  return Float32Array.from(readBytes(tensor), (exponent) => (exponent === 255 ? NaN : 2 ** (exponent - 127)));
}

function readZeros({ zeros, format }: CodesWeightSource, n: number, groups: number): Float32Array | null {
  if (zeros === null) return null;
  const { tensor, order, less } = zeros;
  const bytes = readBytes(tensor);
  const bits = bitsOf(format.kind);
  const [range, perWord] = [2 ** bits, 32 / bits];
  const placeOf = (place: number): number => (order === 'awq' ? AWQ_PLACES[place]! : place);
  const values = new Float32Array(n * groups);
  for (let row = 0; row < n; row += 1) {
    const [block, place] = [Math.floor(row / perWord), placeOf(row % perWord)];
    for (let group = 0; group < groups; group += 1) {
      const at = row * groups + group;
      if (order === 'plain') {
        values[at] = expectZero(tensor, ((bytes[at]! + 128) % 256) - 128, range, row, group);
        continue;
      }
      const word = order === 'outputs' ? block * groups + group : group * (n / perWord) + block;
      const byte = bytes[word * 4 + Math.floor((place * bits) / 8)]!;
      values[at] = ((((byte >> ((place * bits) % 8)) % range) + less) % range) - range / 2;
    }
  }
  return values;
}

function expectZero(
  { name, path }: TensorSource,
  zero: number,
  range: number,
  row: number,
  group: number,
): number {
  if (zero >= -range / 2 && zero < range / 2) return zero;
  throw new ModelLoadError(
    `tensor ${name} of ${path} must be from ${-range / 2} to ${range / 2 - 1}, row ${row}, group ${group} is ${zero}; ` +
      'fetch the file again',
  );
}

/** Inputs of one group keep their order. */
function readColumns(tensor: TensorSource, k: number, groups: number): Int32Array<ArrayBuffer> | null {
  const groupOf = new Int32Array(readBytes(tensor).buffer);
  const wrong = groupOf.findIndex((group) => group < 0 || group >= groups);
  const { name, path } = tensor;
  if (wrong >= 0) {
    throw new ModelLoadError(
      `tensor ${name} of ${path} must be from 0 to ${groups - 1}, input ${wrong} is ${groupOf[wrong]}; fetch the file again`,
    );
  }
  const columns = Int32Array.from({ length: k }, (_, input) => input);
  columns.sort((a, b) => groupOf[a]! - groupOf[b]! || a - b);
  const size = k / groups;
  const uneven = columns.findIndex((input, place) => groupOf[input] !== Math.floor(place / size));
  if (uneven >= 0) {
    throw new ModelLoadError(
      `tensor ${name} of ${path} must put ${size} inputs into each group, group ${groupOf[columns[uneven]!]} has another ` +
        'number of them; fetch the file again',
    );
  }
  return columns.every((input, place) => input === place) ? null : columns;
}
