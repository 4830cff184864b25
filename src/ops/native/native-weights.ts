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
import type { NativePackedWeights } from './native-packed-weights.ts';

/** What weights are loaded with. */
interface Loader {
  readonly native: NativeBackend;
  readonly packed: NativePackedWeights;
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
  static load({ native, packed }: Loader, parts: readonly LinearPart[], format: WeightFormat): NativeLinear {
    const { k, sizes } = expectParts('loadLinear', parts, format);
    const index = packed.load(nameOf('linear', parts, format), () => {
      const nativeParts = parts.map((part, i) => partOf('loadLinear', part, sizes[i]!));
      return loading(parts, () => native.loadLinear(nativeParts, k, format));
    });
    const n = sizes.reduce((sum, size) => sum + size, 0);
    return new NativeLinear(native, index, n, k, inputDTypeOf(format));
  }
}

export class NativeGateUp extends Weight implements GateUpWeight {
  static load(
    { native, packed }: Loader,
    gate: LinearPart,
    up: LinearPart,
    format: WeightFormat,
  ): NativeGateUp {
    expectGateUp(gate, up);
    const { k, sizes } = expectParts('loadGateUp', [gate, up], format);
    const n = sizes[0]!;
    const index = packed.load(nameOf('gate and up', [gate, up], format), () => {
      const parts = [partOf('loadGateUp', gate, n), partOf('loadGateUp', up, n)] as const;
      return loading([gate, up], () => native.loadGateUp(...parts, k, format));
    });
    return new NativeGateUp(native, index, n, k, inputDTypeOf(format));
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

/** What the packed cache knows a weight by: kind, tensors and format. */
function nameOf(kind: string, parts: readonly LinearPart[], format: WeightFormat): string {
  const tensors = parts.map(
    ({ weight: { tensor } }) => `${tensor.name} [${tensor.start}] + [${tensor.shape}]`,
  );
  return `${kind} ${tensors.join(', ')} as ${format}`;
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
