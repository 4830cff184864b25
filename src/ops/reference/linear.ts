// Matrix products of the reference backend: linear, addLinear, gateUp and the loading of their weights.

import { ModelLoadError, ShapeError } from '../../errors.ts';
import type { GatedActivation } from '../activation.ts';
import { decodeCodes } from '../decode-codes.ts';
import { type ComputeDType, type HalfDType, inputDTypeOf, isHalf, type WeightFormat } from '../dtype.ts';
import { expectGateUp, expectHeads, expectParts } from '../expected-weights.ts';
import { roundTo } from '../float-formats.ts';
import type { StepLoras, Tensor } from '../ops.ts';
import { readTensor, readTransposed, readWholeNumbers } from '../read-tensor.ts';
import { readCodesOfParts, type StoredCodes } from '../stored-codes.ts';
import type { GateUpWeight, LinearPart, LinearWeight, LinearWeightSource, TensorSource } from '../weights.ts';
import { quantizeToCodes } from './codes.ts';
import { GATED_ACTIVATIONS } from './elementwise.ts';
import { forAddends } from './lora.ts';
import { quantizeRow } from './quantize.ts';
import { expectTensor, RefTensor, roundToDType } from './ref-tensor.ts';

/** values [n, k] rounded to `inputDType`, or whole numbers with scales [n]; bias [n] in f32. */
export class RefLinear implements LinearWeight {
  readonly n: number;
  readonly k: number;
  readonly inputDType: ComputeDType;
  readonly values: Float32Array;
  /** Of int8; null for floats. */
  readonly scales: Float32Array | null;
  readonly bias: Float32Array | null;

  constructor(parts: readonly LinearPart[], format: WeightFormat, half: HalfDType) {
    const { k, sizes } = expectParts('loadLinear', parts, format);
    this.k = k;
    this.n = sizes.reduce((sum, n) => sum + n, 0);
    this.inputDType = inputDTypeOf(format, half);
    this.values = new Float32Array(this.n * k);
    this.scales = format === 'int8' ? new Float32Array(this.n) : null;
    this.bias = parts.some((part) => part.bias !== null) ? new Float32Array(this.n) : null;
    let start = 0;
    const codes = readCodesOfParts(parts, format);
    for (const [i, part] of parts.entries()) {
      const end = start + sizes[i]!;
      readWeight(
        part.weight,
        codes[i]!,
        { k, format, half },
        {
          values: this.values.subarray(start * k, end * k),
          scales: this.scales?.subarray(start, end) ?? null,
        },
      );
      if (part.bias) readTensor(part.bias, 'f32', this.bias?.subarray(start, end));
      start = end;
    }
  }

  get byteLength(): number {
    return this.values.byteLength + (this.bias?.byteLength ?? 0);
  }
}

/** Fills values [n, k], and the scales [n] of int8. */
function readWeight(
  weight: LinearWeightSource,
  codes: StoredCodes | null,
  { k, format, half }: { readonly k: number; readonly format: WeightFormat; readonly half: HalfDType },
  into: { readonly values: Float32Array; readonly scales: Float32Array | null },
): void {
  const { values, scales } = into;
  const dtype = roundingOf(weight, format, half);
  if (weight.kind === 'codes') roundTo(dtype, decodeCodes(weight, codes ?? undefined, values));
  else if (weight.kind === 'transposed') readTransposed(weight, dtype, values);
  else if (weight.kind === 'int8') readWholeNumbers(weight.tensor, values);
  else readTensor(weight.tensor, dtype, values);
  if (typeof format !== 'string' && weight.kind !== 'codes') quantizeToCodes(format, half, values, k);
  if (scales === null) return;
  if (weight.kind === 'int8') readScales(weight.scales, scales);
  else quantizeRows(values, scales);
}

/** What numbers are rounded to before they are quantised, or used. */
function roundingOf({ kind }: LinearWeightSource, format: WeightFormat, half: HalfDType): ComputeDType {
  if (typeof format === 'string' && isHalf(format)) return format;
  const areKept = (kind === 'codes' || kind === 'blocks') && format !== 'int8';
  return areKept ? half : 'f32';
}

/** Rows of values [scales.length, k], each by itself, in place. */
function quantizeRows(values: Float32Array, scales: Float32Array): void {
  const k = values.length / scales.length;
  for (let row = 0; row < scales.length; row += 1) {
    const numbers = values.subarray(row * k, (row + 1) * k);
    scales[row] = quantizeRow(numbers, numbers);
  }
}

function readScales(source: TensorSource, into: Float32Array): void {
  readTensor(source, 'f32', into);
  const row = into.findIndex((scale) => scale <= 0);
  if (row >= 0) {
    throw new ModelLoadError(`tensor ${source.name} of ${source.path} must be above 0, row ${row} is not`);
  }
}

/** Gate and up projections, each [n, k]. */
export class RefGateUp implements GateUpWeight {
  readonly gate: RefLinear;
  readonly up: RefLinear;

  constructor(gate: LinearPart, up: LinearPart, format: WeightFormat, half: HalfDType) {
    expectGateUp(gate, up);
    // Both together, to have the order of their inputs compared.
    readCodesOfParts([gate, up], format);
    this.gate = new RefLinear([gate], format, half);
    this.up = new RefLinear([up], format, half);
  }

  get n(): number {
    return this.gate.n;
  }
  get k(): number {
    return this.gate.k;
  }
  get inputDType(): ComputeDType {
    return this.gate.inputDType;
  }
  get byteLength(): number {
    return this.gate.byteLength + this.up.byteLength;
  }
}

/** x [tokens, k] -> f32 [tokens, n]. */
export function linear(x: Tensor, weight: LinearWeight, loras?: StepLoras): RefTensor {
  const w = expectLinear('linear', weight);
  const input = expectTensor('linear', 'x', x, { cols: w.k, dtype: w.inputDType });
  const out = RefTensor.zeros(x.rows, w.n, 'f32');
  multiply(input, w, (row, col, value) => {
    out.data[row * w.n + col] = value;
  });
  addLoras(out, input, loras);
  return out;
}

/** Each head of x [tokens, heads * width] by a weight of its own -> f32 [tokens, heads * (n, and the rest where it is kept)]. */
export function headLinear(x: Tensor, weights: readonly LinearWeight[], keepsRest: boolean): RefTensor {
  const { n, k, width } = expectHeads(x, weights);
  const input = expectTensor('headLinear', 'x', x, {});
  const outWidth = n + (keepsRest ? width - k : 0);
  const out = RefTensor.zeros(x.rows, weights.length * outWidth, 'f32');
  for (const [head, weight] of weights.entries()) {
    for (let row = 0; row < x.rows; row++) {
      const numbers = input.row(row).subarray(head * width, (head + 1) * width);
      const heads = roundToDType(new RefTensor(numbers.slice(0, k), 1, k, weight.inputDType));
      const into = out.row(row).subarray(head * outWidth, (head + 1) * outWidth);
      into.set(linear(heads, weight).data);
      if (keepsRest) into.set(numbers.subarray(k), n);
    }
  }
  return out;
}

/** residual [tokens, n] f32 += x [tokens, k] · weightᵀ + bias. */
export function addLinear(residual: Tensor, x: Tensor, weight: LinearWeight, loras?: StepLoras): void {
  const w = expectLinear('addLinear', weight);
  const input = expectTensor('addLinear', 'x', x, { cols: w.k, dtype: w.inputDType });
  const sum = expectTensor('addLinear', 'residual', residual, { rows: x.rows, cols: w.n, dtype: 'f32' });
  const data = sum.data;
  multiply(input, w, (row, col, value) => {
    const at = sum.rowStart(row) + col;
    data[at] = data[at]! + value;
  });
  addLoras(sum, input, loras);
}

/** y [tokens, n] f32 += what the adapters of its rows add to a product of x. */
function addLoras(y: RefTensor, x: RefTensor, loras: StepLoras | undefined): void {
  if (loras === undefined) return;
  forAddends(loras, x, false, (row, col, value) => {
    const at = y.rowStart(row) + col;
    y.data[at] = y.data[at]! + value;
  });
}

/** x [tokens, k] -> activation(x · gateᵀ) * (x · upᵀ) [tokens, n] in the weight's inputDType. */
export function gateUp(
  x: Tensor,
  weight: GateUpWeight,
  activation: GatedActivation,
  loras?: StepLoras,
): RefTensor {
  if (!(weight instanceof RefGateUp)) throw new ShapeError('gateUp', 'a weight of this backend', 'another');
  const input = expectTensor('gateUp', 'x', x, { cols: weight.k, dtype: weight.inputDType });
  const { n } = weight;
  // Gate, then up.
  const both = RefTensor.zeros(x.rows, 2 * n, 'f32');
  multiply(input, weight.gate, (row, col, gate) => {
    both.data[row * 2 * n + col] = gate;
  });
  multiply(input, weight.up, (row, col, up) => {
    both.data[row * 2 * n + n + col] = up;
  });
  if (loras !== undefined) {
    forAddends(loras, input, true, (row, col, value) => {
      both.data[row * 2 * n + col]! += value;
    });
  }
  const gated = GATED_ACTIVATIONS[activation];
  const out = RefTensor.zeros(x.rows, n, weight.inputDType);
  for (let row = 0; row < x.rows; row++) {
    const numbers = both.row(row);
    out.row(row).set(numbers.subarray(0, n).map((gate, col) => gated(gate, numbers[n + col]!)));
  }
  return roundToDType(out);
}

export function expectLinear(op: string, weight: LinearWeight): RefLinear {
  if (!(weight instanceof RefLinear)) throw new ShapeError(op, 'a weight of this backend', 'another');
  return weight;
}

/** Whole sums are exact; what follows them is rounded after each step, so that every backend has the same bits. */
const inF32 = Math.fround;

/** Calls `store` with each number of x · weightᵀ + bias; a weight row is read once for all rows of x. */
function multiply(
  x: RefTensor,
  weight: RefLinear,
  store: (row: number, col: number, value: number) => void,
): void {
  const { values, scales, bias, n, k } = weight;
  const rows = Array.from({ length: x.rows }, (_, row) => {
    return scales === null ? { numbers: x.row(row), scale: 1 } : quantized(x.row(row));
  });
  for (let col = 0; col < n; col++) {
    const scale = scales?.[col] ?? 1;
    const offset = bias?.[col] ?? 0;
    for (const [row, { numbers, scale: rowScale }] of rows.entries()) {
      const sum = dot(numbers, 0, values, col * k, k);
      if (scales === null) store(row, col, sum + offset);
      else store(row, col, inF32(inF32(inF32(inF32(sum) * rowScale) * scale) + offset));
    }
  }
}

/** A row of x as whole numbers, to be multiplied by `scale`. */
function quantized(row: Float32Array): { numbers: Float32Array; scale: number } {
  const numbers = new Float32Array(row.length);
  return { scale: quantizeRow(row, numbers), numbers };
}

/** In f64, in four interleaved sums: the order depends on nothing but k. */
function dot(a: Float32Array, aStart: number, b: Float32Array, bStart: number, k: number): number {
  let s0 = 0;
  let s1 = 0;
  let s2 = 0;
  let s3 = 0;
  let i = 0;
  for (; i + 4 <= k; i += 4) {
    s0 += a[aStart + i]! * b[bStart + i]!;
    s1 += a[aStart + i + 1]! * b[bStart + i + 1]!;
    s2 += a[aStart + i + 2]! * b[bStart + i + 2]!;
    s3 += a[aStart + i + 3]! * b[bStart + i + 3]!;
  }
  for (; i < k; i++) s0 += a[aStart + i]! * b[bStart + i]!;
  return s0 + s1 + (s2 + s3);
}
