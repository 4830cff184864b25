// Weights, vectors, experts and caches, which outlive a step: indices that the addon gave out.

import {
  DeviceMemoryError,
  HostMemoryError,
  ModelLoadError,
  NotAvailableError,
  ShapeError,
} from '../../errors.ts';
import type {
  NativeBackend,
  NativePart,
  NativeSource,
  NativeWeightFormat,
} from '../../native/native-backend.ts';
import type { GatedActivation } from '../activation.ts';
import { decodeCodes } from '../decode-codes.ts';
import {
  type ComputeDType,
  formatName,
  type HalfDType,
  inputDTypeOf,
  isHalf,
  storedBytes,
  type WeightFormat,
} from '../dtype.ts';
import { expectGateUp, expectParts, expectVector, rectangleOf } from '../expected-weights.ts';
import { type ExpertRange, type Experts, expectExperts, type Routing } from '../experts.ts';
import type { KvCache, KvCacheShape } from '../ops.ts';
import { readTensor, readTransposed } from '../read-tensor.ts';
import { readCodesOfParts, type StoredCodes } from '../stored-codes.ts';
import type {
  GateUpWeight,
  LinearPart,
  LinearWeight,
  LinearWeightSource,
  TensorSource,
  Vector,
} from '../weights.ts';
import { asOpsError } from './native-errors.ts';
import type { NativePackedWeights } from './native-packed-weights.ts';

/** The backend that packs weights, and the cache of packed ones. */
export interface Loader {
  readonly native: NativeBackend;
  readonly packed: NativePackedWeights;
  readonly half: HalfDType;
}

/** An index into one backend's tables; it means nothing to another backend. */
class Handle {
  readonly native: NativeBackend;
  readonly index: number;

  constructor(native: NativeBackend, index: number) {
    this.native = native;
    this.index = index;
  }
}

/** [n, k] for inputs in `inputDType`. */
class Weight extends Handle {
  readonly n: number;
  readonly k: number;
  readonly inputDType: ComputeDType;
  readonly byteLength: number;

  constructor(native: NativeBackend, index: number, n: number, k: number, inputDType: ComputeDType) {
    super(native, index);
    this.n = n;
    this.k = k;
    this.inputDType = inputDType;
    this.byteLength = native.weightBytes(index);
  }
}

export class NativeLinear extends Weight implements LinearWeight {
  static load(
    { native, packed, half }: Loader,
    parts: readonly LinearPart[],
    format: WeightFormat,
    splitsK: boolean,
  ): NativeLinear {
    const { k, sizes } = expectParts('loadLinear', parts, format);
    const index = packed.load(nameOf('linear', parts, format), () => {
      const codes = readCodesOfParts(parts, format);
      const nativeParts = parts.map((part, i) => partOf('loadLinear', part, sizes[i]!, format, codes[i]!));
      return loading(parts, () => native.loadLinear(nativeParts, k, formatOf(format, k), splitsK));
    });
    const n = sizes.reduce((sum, size) => sum + size, 0);
    return new NativeLinear(native, index, n, k, inputDTypeOf(format, half));
  }
}

export class NativeGateUp extends Weight implements GateUpWeight {
  static load(
    { native, packed, half }: Loader,
    gate: LinearPart,
    up: LinearPart,
    format: WeightFormat,
  ): NativeGateUp {
    expectGateUp(gate, up);
    const { k, sizes } = expectParts('loadGateUp', [gate, up], format);
    const n = sizes[0]!;
    const index = packed.load(nameOf('gate and up', [gate, up], format), () => {
      const codes = readCodesOfParts([gate, up], format);
      const parts = [
        partOf('loadGateUp', gate, n, format, codes[0]!),
        partOf('loadGateUp', up, n, format, codes[1]!),
      ] as const;
      return loading([gate, up], () => native.loadGateUp(...parts, k, formatOf(format, k)));
    });
    return new NativeGateUp(native, index, n, k, inputDTypeOf(format, half));
  }
}

export class NativeVector extends Handle implements Vector {
  readonly length: number;

  constructor(native: NativeBackend, index: number, length: number) {
    super(native, index);
    this.length = length;
  }

  static load(native: NativeBackend, source: TensorSource): NativeVector {
    const length = expectVector(source);
    const index = guardFile(source.name, () => native.loadVector(sourceOf('loadVector', source), length));
    return new NativeVector(native, index, length);
  }
}

type NativeExpert = { readonly down: NativeLinear } & (
  | { readonly gateUp: NativeGateUp }
  | { readonly up: NativeLinear }
);

export class NativeExperts extends Handle implements Experts {
  readonly total: number;
  readonly k: number;
  readonly n: number;
  readonly inputDType: ComputeDType;

  constructor(
    native: NativeBackend,
    experts: readonly NativeExpert[],
    { bias, factors }: { readonly bias: NativeVector | null; readonly factors: NativeVector | null },
    routing: Routing,
    activation: GatedActivation,
    range: ExpertRange,
  ) {
    const { total, k, n, inputDType } = expectExperts(experts, routing, activation, range);
    const { topK, scores, groups, isNormalized, scale = 1, nearness, weighsInputs = false } = routing;
    const index = native.makeExperts(
      Int32Array.from(experts, (expert) => ('gateUp' in expert ? expert.gateUp : expert.up).index),
      Int32Array.from(experts, ({ down }) => down.index),
      total,
      range.first,
      activation,
      bias?.index ?? -1,
      factors?.index ?? -1,
      topK,
      scores === 'sigmoid',
      groups?.count ?? 1,
      groups?.kept ?? 1,
      groups?.best ?? 1,
      isNormalized,
      scale,
      nearness ?? 0,
      weighsInputs,
    );
    super(native, index);
    this.total = total;
    this.k = k;
    this.n = n;
    this.inputDType = inputDType;
  }
}

export class NativeKvCache extends Handle implements KvCache {
  readonly shape: KvCacheShape;
  readonly layerBlockBytes: number;

  constructor(native: NativeBackend, shape: KvCacheShape, isShared: boolean) {
    const { layers, blocks, blockSize, kvHeads, headDim, dtype } = shape;
    const {
      layerGroups = [],
      layerHeads = [],
      keysAreValues = false,
      states = { layers: 0, slots: 0, width: 0 },
    } = shape;
    if (blockSize <= 0 || blockSize % 16 !== 0)
      throw new ShapeError('makeKvCache', 'a blockSize that is a multiple of 16', `${blockSize}`);
    const groups = Int32Array.from({ length: layers }, (_, layer) => layerGroups[layer] ?? 0);
    super(
      native,
      native.makeKvCache(
        groups,
        Int32Array.from(layerHeads.flatMap(({ kvHeads, headDim }) => [kvHeads, headDim])),
        blocks,
        blockSize,
        kvHeads,
        headDim,
        dtype,
        keysAreValues,
        states.layers,
        states.slots,
        states.width,
        isShared,
      ),
    );
    this.shape = shape;
    this.layerBlockBytes = native.layerBlockBytes(this.index);
  }

  free(): void {
    this.native.freeKvCache(this.index);
  }
}

/** The name of a weight in the packed cache: kind, tensors and format. */
function nameOf(kind: string, parts: readonly LinearPart[], format: WeightFormat): string {
  const tensors = parts.map(
    ({ weight: { tensor } }) => `${tensor.name} [${tensor.start}] + [${tensor.shape}]`,
  );
  return `${kind} ${tensors.join(', ')} as ${formatName(format)}`;
}

function formatOf(format: WeightFormat, k: number): NativeWeightFormat {
  if (typeof format === 'string') return format;
  // Groups fill whole matrix tiles.
  return { ...format, groupSize: format.groupSize ?? Math.ceil(k / 32) * 32 };
}

function partOf(
  op: string,
  part: LinearPart,
  n: number,
  format: WeightFormat,
  codes: StoredCodes | null,
): NativePart {
  const { weight } = part;
  const bias = part.bias && vectorOf(op, part.bias);
  const numbers = computedNumbers(weight, format);
  if (numbers !== null) {
    const source = readSource(weight.tensor, numbers, numbers.length / n);
    return { weight: source, n, scales: null, codes: null, bias };
  }
  if (weight.kind !== 'codes') {
    const scales = weight.kind === 'int8' ? vectorOf(op, weight.scales) : null;
    return { weight: sourceOf(op, weight.tensor), n, scales, codes: null, bias };
  }
  const { tensor, order } = weight;
  // Whole numbers of 8 bits in words have 128 in the place of 0.
  const offset = weight.format.kind === 'int8' && tensor.dtype === 'i32' ? 128 : 0;
  return { weight: bytesOf(op, tensor), n, scales: null, codes: { order, offset, ...codes! }, bias };
}

/** The numbers [n, k] of a weight that is published in an order, or in codes, which the addon does not make numbers of; else null. */
function computedNumbers(weight: LinearWeightSource, format: WeightFormat): Float32Array | null {
  if (weight.kind === 'codes') return format === 'int8' ? decodeCodes(weight) : null;
  if (weight.kind !== 'transposed') return null;
  return readTransposed(weight, typeof format === 'string' && isHalf(format) ? format : 'f32');
}

/** A vector, which may be a column. */
function vectorOf(op: string, source: TensorSource): NativeSource {
  if (source.shape.length === 1) return sourceOf(op, source);
  const numbers = readTensor(source, 'f32');
  return readSource(source, numbers, numbers.length);
}

/** Numbers that the addon does not read from a file itself, in rows of `rowLength`. */
function readSource({ name, path }: TensorSource, numbers: Float32Array, rowLength: number): NativeSource {
  const whole = { byteOffset: 0, firstRow: 0, firstCol: 0, pairedRows: 0, planeRows: 0 } as const;
  return { name, path, dtype: 'f32', rowLength, ...whole, numbers };
}

/** A tensor's rows as bytes. */
function bytesOf(op: string, tensor: TensorSource): NativeSource {
  const source = sourceOf(op, tensor);
  const [rowLength, firstCol] = [source.rowLength, source.firstCol].map((count) =>
    storedBytes(tensor.dtype, count),
  );
  return { ...source, dtype: 'u8', rowLength: rowLength!, firstCol: firstCol! };
}

function sourceOf(op: string, source: TensorSource): NativeSource {
  if (source.numbers) return readSource(source, readTensor(source, 'f32'), source.shape.at(-1)!);
  const { name, path, byteOffset, pairedRows = 0, planeRows = 0 } = source;
  const { rowLength, firstRow, firstCol } = rectangleOf(op, source);
  const dtype = source.dtype === 'i32' || source.dtype === 'f8' ? 'u8' : source.dtype;
  return {
    name,
    path,
    byteOffset,
    dtype,
    rowLength,
    firstRow,
    firstCol,
    pairedRows,
    planeRows,
    numbers: null,
  };
}

function loading<T>(parts: readonly LinearPart[], read: () => T): T {
  return guardFile(parts.map(({ weight }) => weight.tensor.name).join(', '), read);
}

/** @throws ModelLoadError naming the tensors when their file is missing, unreadable or cut off; errors of memory as they are. */
function guardFile<T>(names: string, read: () => T): T {
  try {
    return read();
  } catch (failure) {
    const error = asOpsError(failure);
    const isAboutFile = ![NotAvailableError, DeviceMemoryError, HostMemoryError].some(
      (kind) => error instanceof kind,
    );
    if (!isAboutFile) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ModelLoadError(`cannot load ${names}: ${reason}; fetch the file again`, { cause: error });
  }
}
