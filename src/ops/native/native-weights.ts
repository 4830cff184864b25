// What outlives a step: weights, vectors and caches as indices that the addon gave out.

import { ModelLoadError, ShapeError } from '../../errors.ts';
import type { NativeBackend, NativePart, NativeSource } from '../../native/native.ts';
import { type ComputeDType, inputDTypeOf, type WeightFormat } from '../dtype.ts';
import type { KvCache, KvCacheShape } from '../ops.ts';
import {
  expectGateUp,
  expectParts,
  expectVector,
  type GateUpWeight,
  type LinearPart,
  type LinearWeight,
  rectangleOf,
  type TensorSource,
  type Vector,
} from '../weights.ts';

/** An index into one backend's tables; it means nothing to another backend. */
class Handle {
  readonly native: NativeBackend;
  readonly index: number;

  constructor(native: NativeBackend, index: number) {
    this.native = native;
    this.index = index;
  }
}

export class NativeLinear extends Handle implements LinearWeight {
  readonly n: number;
  readonly k: number;
  readonly inputDType: ComputeDType;
  readonly byteLength: number;

  constructor(native: NativeBackend, parts: readonly LinearPart[], format: WeightFormat) {
    const { k, sizes } = expectParts('loadLinear', parts, format);
    const nativeParts = parts.map((part, i) => partOf('loadLinear', part, sizes[i]!));
    super(
      native,
      loading(parts, () => native.loadLinear(nativeParts, k, format)),
    );
    this.n = sizes.reduce((sum, n) => sum + n, 0);
    this.k = k;
    this.inputDType = inputDTypeOf(format);
    this.byteLength = native.weightBytes(this.index);
  }
}

export class NativeGateUp extends Handle implements GateUpWeight {
  readonly n: number;
  readonly k: number;
  readonly inputDType: ComputeDType;
  readonly byteLength: number;

  constructor(native: NativeBackend, gate: LinearPart, up: LinearPart, format: WeightFormat) {
    expectGateUp(gate, up);
    const { k, sizes } = expectParts('loadGateUp', [gate, up], format);
    const n = sizes[0]!;
    const parts = [partOf('loadGateUp', gate, n), partOf('loadGateUp', up, n)] as const;
    super(
      native,
      loading([gate, up], () => native.loadGateUp(...parts, k, format)),
    );
    this.n = n;
    this.k = k;
    this.inputDType = inputDTypeOf(format);
    this.byteLength = native.weightBytes(this.index);
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

export class NativeKvCache extends Handle implements KvCache {
  readonly shape: KvCacheShape;
  readonly layerBlockBytes: number;

  constructor(native: NativeBackend, shape: KvCacheShape, isShared: boolean) {
    const { layers, blocks, blockSize, kvHeads, headDim, dtype } = shape;
    if (blockSize <= 0 || blockSize % 16 !== 0)
      throw new ShapeError('makeKvCache', 'a blockSize that is a multiple of 16', `${blockSize}`);
    super(native, native.makeKvCache(layers, blocks, blockSize, kvHeads, headDim, dtype, isShared));
    this.shape = shape;
    this.layerBlockBytes = native.layerBlockBytes(this.index);
  }
}

function partOf(op: string, { weight, bias }: LinearPart, n: number): NativePart {
  const scales = weight.kind === 'int8' ? sourceOf(op, weight.scales) : null;
  return { weight: sourceOf(op, weight.tensor), n, scales, bias: bias && sourceOf(op, bias) };
}

function sourceOf(op: string, source: TensorSource): NativeSource {
  const { name, path, byteOffset, dtype } = source;
  const { rowLength, firstRow, firstCol } = rectangleOf(op, source);
  return { name, path, byteOffset, dtype, rowLength, firstRow, firstCol };
}

function loading<T>(parts: readonly LinearPart[], read: () => T): T {
  return guardFile(parts.map(({ weight }) => weight.tensor.name).join(', '), read);
}

/** @throws ModelLoadError naming the tensors when their file is missing, unreadable or cut off. */
function guardFile<T>(names: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ModelLoadError(`cannot load ${names}: ${reason}; fetch the file again`, { cause: error });
  }
}
