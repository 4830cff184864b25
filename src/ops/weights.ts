// Weights: where their numbers are published, and what a backend makes of them. A number format that is not one tensor
// of floats (quantised, with scales) is one more variant of `LinearWeightSource`.

import { ShapeError } from '../errors.ts';
import {
  type BlockDType,
  bitsOf,
  type CodeFormat,
  type ComputeDType,
  isBlockDType,
  type StorageDType,
} from './dtype.ts';

/** A tensor in a file, or a rectangle of one; not yet read. */
export interface TensorSource {
  /** The checkpoint's name, for errors: `model.layers.0.mlp.up_proj.weight`. */
  readonly name: string;
  readonly path: string;
  readonly dtype: StorageDType;
  /** Of the whole tensor, from the beginning of the file. */
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly storedShape: readonly number[];
  /** What is to be loaded: so many numbers a dimension, from this index on. */
  readonly shape: readonly number[];
  readonly start: readonly number[];
  /**
   * Rows (of a vector: numbers) of a head, where the two halves of each head take turns in the file: its row 2i + j there is row
   * j * pairedRows / 2 + i of the head. Left out where all are in order.
   */
  readonly pairedRows?: number | undefined;
  /**
   * Rows of the file, where a byte of i8 holds numbers from -1 to 1 of four rows, each more by 1 in 2 bits: bits 2i and 2i + 1 of its row r
   * are of row i * planeRows + r. Left out where a byte is a number.
   */
  readonly planeRows?: number | undefined;
  /** All numbers of the tensor, where they are computed and not what the file holds. */
  readonly numbers?: Float32Array;
}

/** The numbers of a projection, [n, k], in one of the formats in which weights are published. */
export type LinearWeightSource =
  | PlainWeightSource
  | TransposedWeightSource
  | Int8WeightSource
  | CodesWeightSource
  | BlocksWeightSource;

/** One tensor of floats. */
interface PlainWeightSource {
  readonly kind: 'plain';
  /** [n, k] */
  readonly tensor: TensorSource;
}

/** One tensor of floats, published input by input. */
export interface TransposedWeightSource {
  readonly kind: 'transposed';
  /** Of the weight, [n, k]. */
  readonly shape: readonly [n: number, k: number];
  /** The numbers that it loads are those of [k, n] in their order, whatever its own shape. */
  readonly tensor: TensorSource;
}

/** Whole numbers: row r of the weight is `scales[r]` times row r of the tensor. It is loaded as `int8` only. */
export interface Int8WeightSource {
  readonly kind: 'int8';
  /** [n, k] i8, or blocks of numbers from -1 to 1, whose own scales are left out. */
  readonly tensor: TensorSource;
  /** [n, 1], above 0 */
  readonly scales: TensorSource;
}

/** Codes of 4 or 8 bits, see CodeFormat; they are packed as they are published, or as int8 the numbers that they encode. */
export interface CodesWeightSource {
  readonly kind: 'codes';
  readonly format: CodeFormat;
  /** Of the weight, [n, k]. */
  readonly shape: readonly [n: number, k: number];
  /** Words of 32 bits (or bytes), the first code in the lowest bits. */
  readonly tensor: TensorSource;
  /**
   * Where they are. `rows`: [n, k / codes a word], along k. `columns`: [k / codes a word, n], along k. `awq`:
   * [k, n / 8], eight outputs in a word in the order 0, 2, 4, 6, 1, 3, 5, 7.
   */
  readonly order: 'rows' | 'columns' | 'awq';
  readonly scales: StoredScales;
  /** Null where the format has none. */
  readonly zeros: StoredZeros | null;
  /** [k] the group of each input, where groups are not k in order; codes, too, are published in the order of k. */
  readonly inputGroups: TensorSource | null;
}

/** A tensor of blocks, which is packed as the codes that they hold, or as int8 their numbers. */
export interface BlocksWeightSource {
  readonly kind: 'blocks';
  readonly format: BlockDType;
  /** [n, k] */
  readonly tensor: TensorSource;
}

/** One scale for each group of `outputs` outputs, of which the first group may be cut; above 0, or 0 where scales are `f8`. */
export interface StoredScales {
  /** [ceil((before + n) / outputs), groups], or [groups, n]. A number of `u8` stands for that power of 2, less 127; `f8` are e4m3. */
  readonly tensor: TensorSource;
  readonly isTransposed: boolean;
  readonly outputs: number;
  /** How many outputs of the first group come before those of the weight; left out, none. */
  readonly before?: number;
  readonly ofAll?: ScaleOfAll;
}

/** A number above 0 that all scales of a weight are multiplied by, or divided. */
export interface ScaleOfAll {
  readonly tensor: TensorSource;
  readonly divides: boolean;
}

interface StoredZeros {
  /**
   * Where they are. `plain`: [n, groups], signed. Else codes in words of 32 bits, `outputs`: [n / codes a word, groups];
   * `columns`: [groups, n / codes a word]; `awq`: the same, in its order.
   */
  readonly order: 'plain' | 'outputs' | 'columns' | 'awq';
  readonly tensor: TensorSource;
  /** What is published is less by this much, modulo the range of the codes. */
  readonly less: 0 | 1;
}

/** One projection as published: weight [n, k] and, where the model has one, bias [n] or [n, 1]. */
export interface LinearPart {
  readonly weight: LinearWeightSource;
  readonly bias: TensorSource | null;
}

/** `out = x · weightᵀ + bias`, packed for the backend: weight [n, k], bias [n]. Several parts are side by side in n. */
export interface LinearWeight {
  readonly n: number;
  readonly k: number;
  /** The format that it wants its input in. */
  readonly inputDType: ComputeDType;
  /** Memory that one use streams through the processor. */
  readonly byteLength: number;
}

/** Gate and up projections packed together, each [n, k], so that `silu(gate) * up` needs no second pass. */
export interface GateUpWeight {
  readonly n: number;
  readonly k: number;
  /** The format that it wants its input in, and that of its output. */
  readonly inputDType: ComputeDType;
  readonly byteLength: number;
}

/** A vector of f32 kept by the backend: norm weights, rope tables. */
export interface Vector {
  readonly length: number;
}

export function wholeTensor(tensor: Omit<TensorSource, 'storedShape' | 'start'>): TensorSource {
  return { ...tensor, storedShape: tensor.shape, start: tensor.shape.map(() => 0) };
}

export function plainPart(tensor: TensorSource, bias: TensorSource | null = null): LinearPart {
  return { weight: { kind: 'plain', tensor }, bias };
}

/** A weight [n, k] of floats, or of blocks. */
export function storedPart(tensor: TensorSource, bias: TensorSource | null = null): LinearPart {
  const { dtype } = tensor;
  return isBlockDType(dtype)
    ? { weight: { kind: 'blocks', format: dtype, tensor }, bias }
    : plainPart(tensor, bias);
}

/**
 * `length` rows (dimension 0) or columns (dimension 1) of what `source` loads, from `start` on.
 * @throws ShapeError where it does not have them.
 */
export function narrow(source: TensorSource, dimension: 0 | 1, start: number, length: number): TensorSource {
  const [size, first] = [source.shape[dimension], source.start[dimension]];
  if (size === undefined || first === undefined || start < 0 || length < 1 || start + length > size) {
    const expected = `a range inside dimension ${dimension} of ${source.name} [${source.shape.join(', ')}]`;
    throw new ShapeError('narrow', expected, `${start} to ${start + length}`);
  }
  return {
    ...source,
    shape: source.shape.with(dimension, length),
    start: source.start.with(dimension, first + start),
  };
}

/**
 * `length` outputs of a weight in whole numbers, codes or blocks, from `start` on, with their scales and zeros.
 * @returns null where a word of codes is partly of other outputs.
 */
export function narrowOutputs<Source extends Int8WeightSource | CodesWeightSource | BlocksWeightSource>(
  source: Source,
  start: number,
  length: number,
): LinearWeightSource | null {
  if (source.kind === 'blocks') return { ...source, tensor: narrow(source.tensor, 0, start, length) };
  if (source.kind === 'int8') {
    const [tensor, scales] = [source.tensor, source.scales].map((one) => narrow(one, 0, start, length));
    return { kind: 'int8', tensor: tensor!, scales: scales! };
  }
  return narrowCodes(source, start, length);
}

function narrowCodes(source: CodesWeightSource, start: number, length: number): CodesWeightSource | null {
  const { tensor, order, format, shape, scales, zeros } = source;
  const [n, k] = shape;
  const perWord = 32 / bitsOf(format.kind);
  const isAligned = (outputs: number): boolean =>
    start % outputs === 0 && (length % outputs === 0 || start + length === n);
  const cut = (from: TensorSource, [dimension, outputs]: readonly [0 | 1, number]): TensorSource =>
    narrow(from, dimension, start / outputs, Math.ceil(length / outputs));
  const hasWords = order === 'awq' || (zeros !== null && zeros.order !== 'plain');
  if (hasWords && !isAligned(perWord)) return null;
  const codes = { rows: [0, 1], columns: [1, 1], awq: [1, perWord] } as const;
  const zeroCodes = {
    plain: [0, 1],
    outputs: [0, perWord],
    columns: [1, perWord],
    awq: [1, perWord],
  } as const;
  return {
    ...source,
    shape: [length, k],
    tensor: cut(tensor, codes[order]),
    scales: narrowScales(scales, start, length),
    zeros: zeros && { ...zeros, tensor: cut(zeros.tensor, zeroCodes[zeros.order]) },
  };
}

function narrowScales(scales: StoredScales, start: number, length: number): StoredScales {
  const { tensor, isTransposed, outputs } = scales;
  const first = (scales.before ?? 0) + start;
  const before = first % outputs;
  const groups = Math.ceil((before + length) / outputs);
  return {
    ...scales,
    before,
    tensor: narrow(tensor, isTransposed ? 1 : 0, (first - before) / outputs, groups),
  };
}

/**
 * The same numbers, in their order, as a tensor of another shape.
 * @throws ShapeError where the source is no whole tensor, or has another count of numbers.
 */
export function reshape(source: TensorSource, shape: readonly number[]): TensorSource {
  const sizeOf = (sizes: readonly number[]): number => sizes.reduce((product, size) => product * size, 1);
  if (sizeOf(source.storedShape) !== sizeOf(shape) || sizeOf(source.shape) !== sizeOf(shape)) {
    const expected = `all ${sizeOf(source.storedShape)} numbers of ${source.name}`;
    throw new ShapeError('reshape', expected, `[${shape.join(', ')}]`);
  }
  return wholeTensor({ ...source, shape });
}
