// Reads and checks the header of a GGUF file: what it says of the model, and where each tensor is. Lists stay in the file until
// they are asked for. Source: ggml-org/ggml, docs/gguf.md.

import { closeSync } from 'node:fs';
import { ModelLoadError } from '../../../errors.ts';
import { openModelFile } from '../../../util/model-file.ts';
import { preview } from '../../../util/preview.ts';
import type { StoredTensor } from '../safetensors.ts';
import { HeaderReader } from './header-reader.ts';
import { TENSOR_TYPES } from './tensor-types.ts';

/** A list in the file, whose items are of one type. */
export interface GgufList {
  readonly count: number;
  /** By its number in the format. */
  readonly itemType: number;
  /** Bytes from the beginning of the file. */
  readonly position: number;
}

export type GgufValue = number | boolean | string | GgufList;

/** One file; of a model in several parts, one part. */
export interface GgufFile {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  /** By their names in the file. The last dimension is contiguous, as everywhere here; the format counts the other way. */
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  /** Up to the first tensor. */
  readonly headerBytes: number;
}

const MAGIC = 'GGUF';
const VERSIONS: readonly number[] = [2, 3];
const DEFAULT_ALIGNMENT = 32;
const MOST_ALIGNMENT_POWER = 20;
const MOST_DIMENSIONS = 4;
/** Each expert of a tensor becomes one of its own; no model has a quarter of them. */
export const MOST_TENSORS = 2 ** 19;
const MOST_KEYS = 2 ** 16;
/** Of a list that is read: the largest published vocabularies have half a million merges. */
const MOST_ITEMS = 2 ** 22;

/** Reads one value of each type, by the number of the type. */
const SCALARS: ReadonlyMap<number, (reader: HeaderReader) => number> = new Map([
  [0, (reader) => reader.u8()],
  [1, (reader) => reader.i8()],
  [2, (reader) => reader.u16()],
  [3, (reader) => reader.i16()],
  [4, (reader) => reader.u32()],
  [5, (reader) => reader.i32()],
  [6, (reader) => reader.f32()],
  [10, (reader) => reader.u64()],
  [11, (reader) => reader.i64()],
  [12, (reader) => reader.f64()],
]);
/** Bytes of those, and of the truth values. */
const SCALAR_BYTES: readonly number[] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
/** The type of items that are numbers of f32. */
export const F32_ITEMS = 6;
const BOOL = 7;
const STRING = 8;
const LIST = 9;

/** @throws ModelLoadError naming the file and, where it is one key's or tensor's fault, its name. */
export function readGguf(path: string): GgufFile {
  const file = openModelFile(path);
  try {
    const reader = new HeaderReader(path, file);
    expectVersion(path, reader);
    const numTensors = expectAtMost(
      path,
      MOST_TENSORS,
      reader.count('the number of tensors', 24),
      'the number of tensors is',
    );
    const numKeys = expectAtMost(
      path,
      MOST_KEYS,
      reader.count('the number of keys', 13),
      'the number of keys is',
    );
    const metadata = new Map<string, GgufValue>();
    for (let i = 0; i < numKeys; i += 1) readKey(path, reader, metadata);
    const tensors = readTensors(path, reader, numTensors, alignmentOf(path, metadata));
    return { path, metadata, ...tensors };
  } finally {
    closeSync(file);
  }
}

/**
 * The items of a list of strings, or of numbers.
 * @throws ModelLoadError where its items are of another type, or too many.
 */
export function readStrings(path: string, key: string, list: GgufList): string[] {
  if (list.itemType !== STRING) throw wrongItems(path, key, 'strings');
  return readList(path, key, list, (reader) => reader.string(key));
}

export function readNumbers(path: string, key: string, list: GgufList): number[] {
  const read = SCALARS.get(list.itemType);
  if (read === undefined) throw wrongItems(path, key, 'numbers');
  return readList(path, key, list, read);
}

export function readFlags(path: string, key: string, list: GgufList): boolean[] {
  if (list.itemType !== BOOL) throw wrongItems(path, key, 'true or false');
  return readList(path, key, list, (reader) => reader.u8() !== 0);
}

/** @returns count */
function expectAtMost(path: string, most: number, count: number, what: string): number {
  if (count <= most) return count;
  throw new ModelLoadError(
    `${path}: ${what} ${count}, expected at most ${most}; the file is damaged, fetch it again`,
  );
}

function readList<T>(
  path: string,
  key: string,
  { count, position }: GgufList,
  read: (reader: HeaderReader) => T,
): T[] {
  expectAtMost(path, MOST_ITEMS, count, `the number of items of ${key} is`);
  const file = openModelFile(path);
  try {
    const reader = new HeaderReader(path, file, position);
    return Array.from({ length: count }, () => read(reader));
  } finally {
    closeSync(file);
  }
}

function wrongItems(path: string, key: string, expected: string): ModelLoadError {
  return new ModelLoadError(`${path}: ${key} must be a list of ${expected}; fetch the file again`);
}

function expectVersion(path: string, reader: HeaderReader): void {
  const magic = reader.bytes(4).toString('latin1');
  if (magic !== MAGIC) {
    throw new ModelLoadError(
      `${path} is no GGUF file: it begins with ${JSON.stringify(magic)}, expected "${MAGIC}"`,
    );
  }
  const version = reader.u32();
  if (VERSIONS.includes(version)) return;
  // The bytes of a small number the other way round.
  if (version % 0x10000 === 0 && version !== 0) {
    throw new ModelLoadError(
      `${path} is a big-endian GGUF file, which svc does not read: use the usual, little-endian release`,
    );
  }
  throw new ModelLoadError(
    `${path} is a GGUF file of version ${version}, svc reads ${VERSIONS.join(' and ')}: convert the model again`,
  );
}

function readKey(path: string, reader: HeaderReader, metadata: Map<string, GgufValue>): void {
  const key = reader.name('the length of a key');
  if (metadata.has(key))
    throw new ModelLoadError(`${path}: the key ${key} is there twice; fetch the file again`);
  metadata.set(key, readValue(path, key, reader, reader.u32()));
}

function readValue(path: string, key: string, reader: HeaderReader, type: number): GgufValue {
  const readNumber = SCALARS.get(type);
  if (readNumber !== undefined) return readNumber(reader);
  switch (type) {
    case BOOL:
      return reader.u8() !== 0;
    case STRING:
      return reader.string(key);
    case LIST:
      return readListPlace(path, key, reader);
    default:
      throw unknownType(path, key, type);
  }
}

/** Passes over the items. */
function readListPlace(path: string, key: string, reader: HeaderReader): GgufList {
  const itemType = reader.u32();
  const isString = itemType === STRING;
  const bytes = isString ? 8 : (SCALAR_BYTES[itemType] ?? 0);
  if (bytes === 0) throw unknownType(path, key, itemType);
  const count = reader.count(key, bytes);
  const { position } = reader;
  if (!isString) reader.advance(count * bytes);
  else for (let i = 0; i < count; i += 1) reader.advance(reader.count(key, 1));
  return { count, itemType, position };
}

function unknownType(path: string, key: string, type: number): ModelLoadError {
  return new ModelLoadError(
    `${path}: ${key} is of the type ${type}, which svc does not read; the file is damaged, fetch it again`,
  );
}

function alignmentOf(path: string, metadata: ReadonlyMap<string, GgufValue>): number {
  const alignment = metadata.get('general.alignment') ?? DEFAULT_ALIGNMENT;
  const power = typeof alignment === 'number' ? Math.log2(alignment) : -1;
  if (Number.isInteger(power) && power >= 0 && power <= MOST_ALIGNMENT_POWER) return 2 ** power;
  throw new ModelLoadError(
    `${path}: general.alignment must be a power of 2 from 1 to ${2 ** MOST_ALIGNMENT_POWER}, got ${preview(alignment)}; fetch ` +
      'the file again',
  );
}

function readTensors(
  path: string,
  reader: HeaderReader,
  count: number,
  alignment: number,
): Pick<GgufFile, 'tensors' | 'headerBytes'> {
  const infos = Array.from({ length: count }, () => readTensorInfo(path, reader));
  const headerBytes = Math.ceil(reader.position / alignment) * alignment;
  const tensors = new Map<string, StoredTensor>();
  let free = 0;
  for (const { name, offset, ...tensor } of infos.toSorted((a, b) => a.offset - b.offset)) {
    const where = `${path}: tensor ${name} at byte ${offset} of the tensors`;
    if (tensors.has(name))
      throw new ModelLoadError(`${path}: tensor ${name} is there twice; fetch the file again`);
    if (offset % alignment !== 0)
      throw new ModelLoadError(`${where} does not begin at a multiple of ${alignment}`);
    if (offset < free) throw new ModelLoadError(`${where} overlaps the one before it, which ends at ${free}`);
    free = offset + tensor.byteLength;
    if (headerBytes + free > reader.fileBytes) {
      throw new ModelLoadError(
        `${path}: tensor ${name} ends at byte ${headerBytes + free}, the file has ${reader.fileBytes}; it is cut off, fetch it again`,
      );
    }
    tensors.set(name, { path, ...tensor, byteOffset: headerBytes + offset });
  }
  return { tensors, headerBytes };
}

interface TensorInfo {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** From the first tensor on. */
  readonly offset: number;
}

function readTensorInfo(path: string, reader: HeaderReader): TensorInfo {
  const name = reader.name('the length of the name of a tensor');
  const numDimensions = reader.u32();
  if (numDimensions < 1 || numDimensions > MOST_DIMENSIONS) {
    throw new ModelLoadError(
      `${path}: tensor ${name} has ${numDimensions} dimensions, expected 1 to ${MOST_DIMENSIONS}; fetch the file again`,
    );
  }
  const shape = Array.from({ length: numDimensions }, () => reader.u64()).reverse();
  const typeNumber = reader.u32();
  const type = TENSOR_TYPES.get(typeNumber);
  if (type === undefined) {
    throw new ModelLoadError(`${path}: tensor ${name} is of the type ${typeNumber}, which svc does not know`);
  }
  const numbers = shape.reduce((product, length) => product * length, 1);
  const rowLength = shape.at(-1) ?? 0;
  const isSane = Number.isSafeInteger(numbers) && numbers > 0 && rowLength % type.numbers === 0;
  if (!isSane) {
    throw new ModelLoadError(
      `${path}: tensor ${name} [${shape.join(', ')}] ${type.name} must have at least one number, and rows of whole blocks of ` +
        `${type.numbers}; fetch the file again`,
    );
  }
  const byteLength = (numbers / type.numbers) * type.bytes + type.scaleBytes;
  return { name, dtype: type.name, shape, byteLength, offset: reader.u64() };
}
