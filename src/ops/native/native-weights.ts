// What outlives a step: weights, vectors and caches as indices that the addon gave out.

import { ModelLoadError, ShapeError } from '../../errors.ts';
import type { NativeBackend, NativePart, NativeSource } from '../../native/native.ts';
import { BYTES_PER_ELEMENT, type ComputeDType } from '../dtype.ts';
import type {
  GateUpWeight,
  KvCache,
  KvCacheShape,
  LinearPart,
  LinearWeight,
  TensorSource,
  Vector,
} from '../ops.ts';

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
  readonly dtype: ComputeDType;
  readonly byteLength: number;

  constructor(native: NativeBackend, parts: readonly LinearPart[], dtype: ComputeDType) {
    const k = parts[0]?.weight.shape[1];
    if (k === undefined) throw new ShapeError('loadLinear', 'at least one weight [n, k]', `${parts.length}`);
    const nativeParts = parts.map((part) => partOf('loadLinear', part, k));
    super(
      native,
      loading(parts, () => native.loadLinear(nativeParts, k, dtype)),
    );
    this.n = nativeParts.reduce((sum, part) => sum + part.n, 0);
    this.k = k;
    this.dtype = dtype;
    this.byteLength = native.weightBytes(this.index);
  }
}

export class NativeGateUp extends Handle implements GateUpWeight {
  readonly n: number;
  readonly k: number;
  readonly dtype: ComputeDType;
  readonly byteLength: number;

  constructor(native: NativeBackend, gate: LinearPart, up: LinearPart, dtype: ComputeDType) {
    const [n, k] = gate.weight.shape;
    if (n === undefined || k === undefined || up.weight.shape[0] !== n) {
      const expected = `gate and up of one shape, gate is [${gate.weight.shape.join(', ')}]`;
      throw new ShapeError('loadGateUp', expected, `up [${up.weight.shape.join(', ')}]`);
    }
    const parts = [partOf('loadGateUp', gate, k), partOf('loadGateUp', up, k)] as const;
    super(
      native,
      loading([gate, up], () => native.loadGateUp(...parts, k, dtype)),
    );
    this.n = n;
    this.k = k;
    this.dtype = dtype;
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
    const place = sourceOf('loadVector', source);
    const length = source.shape.reduce((product, size) => product * size, 1);
    const index = reading(source, () => native.loadVector(place, length));
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

function partOf(op: string, { weight, bias }: LinearPart, k: number): NativePart {
  const [n, width] = weight.shape;
  if (weight.shape.length !== 2 || n === undefined || width !== k)
    throw new ShapeError(op, `${weight.name} [n, ${k}]`, `[${weight.shape.join(', ')}]`);
  if (bias !== null && (bias.shape.length !== 1 || bias.shape[0] !== n))
    throw new ShapeError(op, `${bias.name} [${n}]`, `[${bias.shape.join(', ')}]`);
  return { weight: sourceOf(op, weight), n, bias: bias && sourceOf(op, bias) };
}

function sourceOf(op: string, source: TensorSource): NativeSource {
  const { path, byteOffset, byteLength, dtype, shape, name } = source;
  const bytes = shape.reduce((product, size) => product * size, BYTES_PER_ELEMENT[dtype]);
  if (bytes !== byteLength)
    throw new ShapeError(op, `${bytes} bytes for ${name} [${shape.join(', ')}] ${dtype}`, `${byteLength}`);
  return { name, path, byteOffset, dtype };
}

function loading<T>(parts: readonly LinearPart[], read: () => T): T {
  const names = parts.map((part) => part.weight.name).join(', ');
  return guardFile(names, read);
}

function reading<T>(source: TensorSource, read: () => T): T {
  return guardFile(source.name, read);
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
