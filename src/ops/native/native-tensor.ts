// Activations of a native backend: ranges of the addon's arena, handed out from the front and taken back by scope.

import { ShapeError } from '../../errors.ts';
import type { NativeBackend } from '../../native/native-backend.ts';
import { BYTES_PER_ELEMENT, type ComputeDType, isHalf } from '../dtype.ts';
import type { Scope, Tensor } from '../ops.ts';
import { asOpsError } from './native-errors.ts';

/** Cache line; every tensor and every row begins at one. */
const LINE_BYTES = 64;
/** Kernels read rows of halves in steps of this many columns; the columns after the last one are zero. */
const HALF_PADDING = 32;

interface ScopeRecord {
  isOpen: boolean;
  /** Null for the outermost one, which never closes. */
  readonly outer: ScopeRecord | null;
}

export class NativeTensor implements Tensor {
  readonly rows: number;
  readonly cols: number;
  readonly dtype: ComputeDType;
  /** Bytes from the beginning of the arena. */
  readonly offset: number;
  /** Distance of rows in elements. */
  readonly stride: number;
  /** A view ends inside the rows of another tensor: what follows its columns is not padding. */
  readonly isView: boolean;
  readonly #scope: ScopeRecord;

  constructor(layout: {
    rows: number;
    cols: number;
    dtype: ComputeDType;
    offset: number;
    stride: number;
    isView: boolean;
    scope: ScopeRecord;
  }) {
    this.rows = layout.rows;
    this.cols = layout.cols;
    this.dtype = layout.dtype;
    this.offset = layout.offset;
    this.stride = layout.stride;
    this.isView = layout.isView;
    this.#scope = layout.scope;
  }

  get isFreed(): boolean {
    return !this.#scope.isOpen;
  }

  /** Columns `first` to `first + cols` of the same rows, in the same scope. */
  view(first: number, cols: number): NativeTensor {
    const { rows, dtype, stride } = this;
    const offset = this.offset + first * BYTES_PER_ELEMENT[dtype];
    return new NativeTensor({ rows, cols, dtype, offset, stride, isView: true, scope: this.#scope });
  }
}

export class Arena {
  readonly #native: NativeBackend;
  #capacity = 0;
  #used = 0;
  #scope: ScopeRecord = { isOpen: true, outer: null };

  constructor(native: NativeBackend) {
    this.#native = native;
  }

  /** Rows whose numbers are undefined until an op writes them. */
  allocate(rows: number, cols: number, dtype: ComputeDType): NativeTensor {
    const stride = rowStride(cols, dtype);
    const offset = this.#used;
    const end = offset + rows * stride * BYTES_PER_ELEMENT[dtype];
    if (end > this.#capacity) this.#grow(end);
    this.#used = end;
    return new NativeTensor({ rows, cols, dtype, offset, stride, isView: false, scope: this.#scope });
  }

  openScope(): Scope {
    const [outer, start] = [this.#scope, this.#used];
    const opened: ScopeRecord = { isOpen: true, outer };
    this.#scope = opened;
    const close = (): void => {
      if (!opened.isOpen) return;
      for (let scope = this.#scope; scope !== outer && scope.outer !== null; scope = scope.outer)
        scope.isOpen = false;
      this.#scope = outer;
      this.#used = start;
    };
    return { close };
  }

  /** @throws DeviceMemoryError where the device has too little memory. */
  #grow(bytes: number): void {
    try {
      this.#capacity = this.#native.growArena(bytes);
    } catch (error) {
      throw asOpsError(error);
    }
  }
}

/**
 * Padded to whole lines, an odd number of them: rows a power of two apart would all fall into the same few sets of
 * the processor's cache.
 */
function rowStride(cols: number, dtype: ComputeDType): number {
  const padded = isHalf(dtype) ? Math.ceil(cols / HALF_PADDING) * HALF_PADDING : cols;
  const lines = Math.ceil((padded * BYTES_PER_ELEMENT[dtype]) / LINE_BYTES) | 1;
  return (lines * LINE_BYTES) / BYTES_PER_ELEMENT[dtype];
}

/** The backend's own form of `tensor`, checked; what `expected` leaves out may be anything. */
export function expectTensor(
  op: string,
  what: string,
  tensor: Tensor,
  expected: { rows?: number; cols?: number; dtype?: ComputeDType },
): NativeTensor {
  const { rows, cols, dtype } = expected;
  const fits =
    tensor instanceof NativeTensor &&
    (rows === undefined || tensor.rows === rows) &&
    (cols === undefined || tensor.cols === cols) &&
    (dtype === undefined || tensor.dtype === dtype);
  if (!fits) {
    const wanted = `${what} [${rows ?? 'any'}, ${cols ?? 'any'}] ${dtype ?? 'f32 or halves'}`;
    throw new ShapeError(op, wanted, `[${tensor.rows}, ${tensor.cols}] ${tensor.dtype}`);
  }
  if (tensor.isFreed) throw new ShapeError(op, `${what} whose scope is open`, 'a freed one');
  return tensor;
}
