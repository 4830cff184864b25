// The tensors of a model by name, over all files that hold them.

import { statSync } from 'node:fs';
import { ModelLoadError } from '../../errors.ts';
import { BLOCKS, type NumberDType, numbersOfBlock, type StorageDType } from '../../ops/dtype.ts';
import { readTensor } from '../../ops/read-tensor.ts';
import { reshape, type TensorSource, wholeTensor } from '../../ops/weights.ts';
import { isGgufPath } from '../../util/model-file.ts';
import type { StoredTensor } from './safetensors.ts';

const BLOCK_DTYPES = Object.keys(BLOCKS).filter((name): name is keyof typeof BLOCKS =>
  Object.hasOwn(BLOCKS, name),
);

/** Formats by their names in the files. */
const DTYPES: Readonly<Record<string, StorageDType>> = {
  ...Object.fromEntries(BLOCK_DTYPES.map((dtype) => [dtype.toUpperCase(), dtype])),
  F32: 'f32',
  F16: 'f16',
  BF16: 'bf16',
  I8: 'i8',
  U8: 'u8',
  I32: 'i32',
  F8_E4M3: 'f8',
  I2_S: 'i2_s',
};
const NUMBERS: readonly NumberDType[] = ['f32', 'f16', 'bf16', ...BLOCK_DTYPES];

export class Checkpoint {
  /** The model's folder, for messages. */
  readonly path: string;
  readonly #tensors = new Map<string, StoredTensor>();
  readonly #read = new Set<string>();
  /** What each file was when its header was read. */
  readonly #states = new Map<string, string>();

  /**
   * @param readHeader gives the tensors of a file.
   * @throws ModelLoadError when two files have the same tensor, and what `readHeader` throws.
   */
  constructor(
    path: string,
    files: readonly string[],
    readHeader: (file: string) => ReadonlyMap<string, StoredTensor>,
  ) {
    this.path = path;
    for (const file of files) {
      this.#states.set(file, stateOf(file));
      this.#add(file, readHeader(file));
    }
  }

  get names(): string[] {
    return [...this.#tensors.keys()];
  }

  /** Of all tensors. */
  get byteLength(): number {
    return [...this.#tensors.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** The same in numbers of weights, as far as dtypes tell: words and bytes of codes may hold codes of 4 or of 8 bits, and count as of 4. */
  get numNumbers(): number {
    return [...this.#tensors.values()].reduce((sum, stored) => sum + numbersOf(stored), 0);
  }

  /** What each file was when its header was read: other bytes, other states. */
  get fileStates(): string[] {
    return [...this.#states.values()];
  }

  /**
   * Where the tensor is in its file.
   * @throws ModelLoadError when it is missing, has another shape or a format that svc cannot load.
   */
  find(name: string, shape: readonly number[]): TensorSource & { readonly dtype: NumberDType } {
    const source = this.findAs(name, shape, NUMBERS);
    const { frames, isWidened = false } = this.#tensors.get(name) ?? {};
    if (frames === undefined && !isWidened) return source;
    const numbers = frames === undefined ? numbersIn(source) : joinFrames(source, frames);
    return { ...source, dtype: 'f32', byteLength: numbers.byteLength, numbers };
  }

  /**
   * One number, which some publish without a dimension; as [1, 1].
   * @throws ModelLoadError when it is missing or has another shape or format.
   */
  findNumber(name: string): TensorSource {
    const isScalar = this.#tensors.get(name)?.shape.length === 0;
    const tensor = this.find(name, isScalar ? [] : [1]);
    return wholeTensor({ ...tensor, shape: [1, 1] });
  }

  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  /** Whether it is left out: one that makes up what it is asked for leaves out nothing. */
  lacks(name: string): boolean {
    return !this.has(name);
  }

  /** The sizes of a tensor; null where it is not there. */
  shapeOf(name: string): readonly number[] | null {
    return this.#tensors.get(name)?.shape ?? null;
  }

  /** What was added to each number of the tensor when it was published: 0 but for what a converter has done. */
  addedTo(name: string): number {
    return this.#tensors.get(name)?.added ?? 0;
  }

  /** Whether a converter has transposed the matrix. */
  isTurned(name: string): boolean {
    return this.#tensors.get(name)?.isTurned ?? false;
  }

  /** Null where the tensor is not there, or in a format that svc cannot load. */
  dtypeOf(name: string): StorageDType | null {
    const stored = this.#tensors.get(name);
    return stored === undefined ? null : dtypeOf(stored);
  }

  /** Says that a tensor, if there is one, is known and not needed. */
  leaveUnread(name: string): void {
    this.#read.add(name);
  }

  /**
   * As `find`, in one of `dtypes`.
   * @throws ModelLoadError when it is missing, has another shape or format.
   */
  findAs<T extends StorageDType>(
    name: string,
    shape: readonly number[],
    dtypes: readonly T[],
  ): TensorSource & { readonly dtype: T } {
    const stored = this.#tensors.get(name);
    const expected = `[${shape.join(', ')}]`;
    if (stored === undefined) {
      throw new ModelLoadError(
        `${this.path}: tensor ${name} ${expected} is missing from the ${this.#tensors.size} tensors ` +
          'of the checkpoint; it does not fit its config.json',
      );
    }
    const got = `[${stored.shape.join(', ')}]`;
    if (got !== expected) {
      throw new ModelLoadError(
        `${stored.path}: tensor ${name} must be ${expected} by config.json, it is ${got}`,
      );
    }
    const found = dtypeOf(stored);
    const dtype = dtypes.find((wanted) => wanted === found);
    if (dtype === undefined) {
      const names = Object.keys(DTYPES).filter((key) =>
        dtypes.some((wanted) => wanted === dtypeOf({ ...stored, dtype: key })),
      );
      const wanted = new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(names);
      throw new ModelLoadError(
        `${stored.path}: tensor ${name} ${expected} must be ${wanted}, it is ${stored.dtype}`,
      );
    }
    this.#read.add(name);
    const { path, byteOffset, byteLength, pairedRows } = stored;
    return { ...wholeTensor({ name, path, byteOffset, byteLength, dtype, shape, pairedRows }), dtype };
  }

  /** Names of the tensors that `find` was not asked for. */
  unread(): string[] {
    return this.names.filter((name) => !this.#read.has(name));
  }

  /** Removes what was made for the tensors; no more of them are read. */
  close(): void {}

  /** @throws ModelLoadError where somebody has written into a file since its header was read. */
  expectUnchanged(): void {
    for (const [path, state] of this.#states) {
      if (stateOf(path) === state) continue;
      throw new ModelLoadError(
        `${path} was changed while it was being loaded; start again once it is written completely`,
      );
    }
  }

  #add(path: string, tensors: ReadonlyMap<string, StoredTensor>): void {
    for (const [name, stored] of tensors) {
      const other = this.#tensors.get(name);
      if (other !== undefined) {
        throw new ModelLoadError(
          `tensor ${name} is in two files, ${other.path} and ${path}; fetch the model again`,
        );
      }
      this.#tensors.set(name, stored);
    }
  }
}

/** f32 [numbers of the tensor] */
function numbersIn(source: TensorSource): Float32Array {
  const length = source.shape.reduce((product, size) => product * size, 1);
  return readTensor(source.shape.length > 2 ? reshape(source, [length]) : source, 'f32');
}

/** f32 [outputs, colours, frames, ...size] of tensors [outputs, colours, ...size]. */
function joinFrames({ name, dtype }: TensorSource, frames: readonly StoredTensor[]): Float32Array {
  const numbers = frames.map((frame) => numbersIn(wholeTensor({ ...frame, name, dtype })));
  const [, , ...size] = frames[0]!.shape;
  const plane = size.reduce((product, side) => product * side, 1);
  const joined = new Float32Array(numbers[0]!.length * frames.length);
  for (let to = 0; to < joined.length; to += plane) {
    const [index, frame] = [Math.floor(to / plane / frames.length), (to / plane) % frames.length];
    joined.set(numbers[frame]!.subarray(index * plane, (index + 1) * plane), to);
  }
  return joined;
}

/** Any write changes it, as does another file in the place of this one. Nobody can set the time of the last change (ctime). */
function stateOf(path: string): string {
  const status = statSync(path, { bigint: true, throwIfNoEntry: false });
  return status === undefined
    ? 'missing'
    : `${status.dev} ${status.ino} ${status.size} ${status.mtimeNs} ${status.ctimeNs}`;
}

function numbersOf(stored: StoredTensor): number {
  const dtype = dtypeOf(stored);
  if (dtype === 'i32' || dtype === 'u8') return 2 * stored.byteLength;
  return stored.shape.reduce((product, size) => product * size, 1);
}

/** Null for formats that svc cannot load. Blocks are a matter of GGUF files: in others nobody has checked their sizes. */
function dtypeOf({ dtype, path }: StoredTensor): StorageDType | null {
  if (!Object.hasOwn(DTYPES, dtype)) return null;
  const found = DTYPES[dtype]!;
  return numbersOfBlock(found) > 1 && !isGgufPath(path) ? null : found;
}
