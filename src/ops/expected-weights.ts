// What ops expect of the weights that they are given: shapes and formats that fit together, checked before a file is read.

import { ShapeError } from '../errors.ts';
import {
  bitsOf,
  formatName,
  groupsOf,
  isBlockDType,
  isTernaryDType,
  numbersOfBlock,
  storedBytes,
  type WeightFormat,
} from './dtype.ts';
import type {
  BlocksWeightSource,
  CodesWeightSource,
  Int8WeightSource,
  LinearPart,
  LinearWeight,
  LinearWeightSource,
  TensorSource,
} from './weights.ts';

/** The rectangle that a source loads, in numbers of its file's own rows; a vector is one row. */
export interface Rectangle {
  readonly rowLength: number;
  readonly firstRow: number;
  readonly firstCol: number;
  readonly rows: number;
  readonly cols: number;
}

/** @throws ShapeError where the source is no vector or matrix, or its bytes are not those of its shape. */
export function rectangleOf(op: string, source: TensorSource): Rectangle {
  const { name, byteLength, dtype, storedShape, shape, start, planeRows } = source;
  const [rowLength, cols, firstCol] = [storedShape.at(-1), shape.at(-1), start.at(-1)];
  const count = storedShape.reduce((product, size) => product * size, 1);
  const bytes = storedBytes(dtype, planeRows === undefined ? count : planeRows * (rowLength ?? 0));
  if (bytes !== byteLength) {
    throw new ShapeError(
      op,
      `${bytes} bytes for ${name} [${storedShape.join(', ')}] ${dtype}`,
      `${byteLength}`,
    );
  }
  if (rowLength === undefined || cols === undefined || firstCol === undefined || storedShape.length > 2) {
    throw new ShapeError(op, `${name}, a vector or a matrix`, `[${storedShape.join(', ')}]`);
  }
  const block = numbersOfBlock(dtype);
  if ([rowLength, cols, firstCol].some((count) => count % block !== 0)) {
    throw new ShapeError(op, `whole blocks of ${block} numbers of ${name}`, `${cols} from ${firstCol} on`);
  }
  const isVector = storedShape.length === 1;
  return { rowLength, firstRow: isVector ? 0 : start[0]!, firstCol, rows: isVector ? 1 : shape[0]!, cols };
}

/** What a weight's shape is, whatever its format. */
function shapeOf(weight: LinearWeightSource): readonly number[] {
  return weight.kind === 'codes' || weight.kind === 'transposed' ? weight.shape : weight.tensor.shape;
}

/**
 * The shapes of parts that are multiplied by the same input: k, and n of each.
 * @throws ShapeError where they do not fit together or cannot be kept in `format`, or scales or a bias do not fit.
 */
export function expectParts(
  op: string,
  parts: readonly LinearPart[],
  format: WeightFormat,
): { k: number; sizes: number[] } {
  const k = parts[0] && shapeOf(parts[0].weight)[1];
  if (k === undefined) throw new ShapeError(op, 'at least one weight [n, k]', `${parts.length}`);
  const sizes = parts.map(({ weight, bias }) => {
    const shape = shapeOf(weight);
    const [n, width] = shape;
    if (shape.length !== 2 || n === undefined || width !== k)
      throw new ShapeError(op, `${weight.tensor.name} [n, ${k}]`, `[${shape.join(', ')}]`);
    if (weight.kind === 'int8') expectInt8(op, weight, n, format);
    else if (weight.kind === 'codes') expectCodes(op, weight, format);
    else if (weight.kind === 'blocks') expectFormat(op, weight, format);
    else expectFloats(op, weight.tensor, format);
    if (bias !== null && !isVectorOf(bias, n))
      throw new ShapeError(op, `${bias.name} [${n}]`, `[${bias.shape.join(', ')}]`);
    return n;
  });
  return { k, sizes };
}

/** A column counts as one. */
function isVectorOf({ shape: [length, width = 1, ...more] }: TensorSource, n: number): boolean {
  return length === n && width === 1 && more.length === 0;
}

function expectInt8(op: string, { tensor, scales }: Int8WeightSource, n: number, format: WeightFormat): void {
  if (format !== 'int8') {
    throw new ShapeError(op, `${tensor.name} to be kept as int8`, formatName(format));
  }
  const isWhole = tensor.dtype === 'i8' || isTernaryDType(tensor.dtype);
  if (!isWhole) throw new ShapeError(op, `whole numbers in ${tensor.name}`, tensor.dtype);
  const got = `[${scales.shape.join(', ')}]`;
  if (got !== `[${n}, 1]`) throw new ShapeError(op, `${scales.name} [${n}, 1]`, got);
}

function expectFloats(op: string, { name, dtype }: TensorSource, format: WeightFormat): void {
  const isNumber = dtype === 'f32' || dtype === 'f16' || dtype === 'bf16' || isBlockDType(dtype);
  if (!isNumber) throw new ShapeError(op, `numbers in ${name}`, dtype);
  const canQuantize =
    typeof format === 'string'
      ? !isBlockDType(format)
      : !format.hasZeros && (format.kind === 'int4' || format.kind === 'fp8');
  if (!canQuantize) throw new ShapeError(op, `${name} in codes of ${formatName(format)}`, dtype);
}

/** Codes and blocks are packed as they are, or their numbers as int8. */
function expectFormat(
  op: string,
  { tensor, format: own }: CodesWeightSource | BlocksWeightSource,
  format: WeightFormat,
): void {
  const [expected, got] = [formatName(own), formatName(format)];
  if (got === 'int8' || got === expected) return;
  throw new ShapeError(op, `${tensor.name} to be kept as ${expected} or int8`, got);
}

function expectCodes(op: string, source: CodesWeightSource, format: WeightFormat): void {
  const { tensor, order, shape, scales, zeros, inputGroups } = source;
  expectFormat(op, source, format);
  const [n, k] = shape;
  const [groups, perWord] = [groupsOf(source.format, k), 32 / bitsOf(source.format.kind)];
  // Codes of whole bytes fill no words.
  const perElement = (bytes: number): number => (perWord * bytes) / 4;
  const inRow = perElement(storedBytes(tensor.dtype, 1));
  const codeShapes = {
    rows: [n, Math.ceil(k / inRow)],
    columns: [k / perWord, n],
    awq: [k, n / perWord],
  };
  expectShape(op, tensor, codeShapes[order]);
  const outputs = Math.ceil(((scales.before ?? 0) + n) / scales.outputs);
  expectShape(op, scales.tensor, scales.isTransposed ? [groups, outputs] : [outputs, groups]);
  if (zeros !== null) {
    const inWord = [groups, n / perWord];
    const zeroShapes = {
      plain: [n, groups],
      outputs: [Math.ceil(n / perWord), groups],
      columns: inWord,
      awq: inWord,
    };
    expectShape(op, zeros.tensor, zeroShapes[zeros.order]);
  }
  if (inputGroups !== null) expectShape(op, inputGroups, [k]);
}

function expectShape(op: string, { name, shape }: TensorSource, expected: readonly number[]): void {
  const [wanted, got] = [expected, shape].map((sizes) => `[${sizes.join(', ')}]`);
  if (wanted !== got) throw new ShapeError(op, `${name} ${wanted}`, `${got}`);
}

/** @throws ShapeError where the source is no vector. */
export function expectVector({ name, shape }: TensorSource): number {
  const [length] = shape;
  if (shape.length === 1 && length !== undefined) return length;
  throw new ShapeError('loadVector', `${name} [n]`, `[${shape.join(', ')}]`);
}

/** @throws ShapeError where gate and up are not of one shape. */
export function expectGateUp(gate: LinearPart, up: LinearPart): void {
  const [expected, got] = [gate, up].map(({ weight }) => `[${shapeOf(weight).join(', ')}]`);
  if (expected !== got)
    throw new ShapeError('loadGateUp', `gate and up of one shape, gate is ${expected}`, `up ${got}`);
}

/**
 * The shape of the weights of heads, and the numbers of a head of x [tokens, heads * width].
 * @throws ShapeError where weights differ, or x does not fit them.
 */
export function expectHeads(
  x: { readonly cols: number },
  weights: readonly LinearWeight[],
): { n: number; k: number; width: number } {
  const [first] = weights;
  if (first === undefined) throw new ShapeError('headLinear', 'at least one weight', 'none');
  const { n, k } = first;
  const other = weights.find((weight) => weight.n !== n || weight.k !== k);
  if (other) throw new ShapeError('headLinear', `weights [${n}, ${k}]`, `[${other.n}, ${other.k}]`);
  const width = x.cols / weights.length;
  if (Number.isInteger(width) && width >= k) return { n, k, width };
  throw new ShapeError('headLinear', `${weights.length} heads of at least ${k} numbers`, `${x.cols} numbers`);
}
