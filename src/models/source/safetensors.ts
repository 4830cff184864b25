// Reads and checks the header of a *.safetensors file, which says where each tensor is. No weight is read here.

import { closeSync, fstatSync, readSync } from 'node:fs';
import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { doubledField } from '../../util/doubled-field.ts';
import { openModelFile, parseModelJson } from '../../util/model-file.ts';
import { shortened } from '../../util/preview.ts';

/** A tensor as the header tells: `dtype` in the format's own spelling, which may be one that svc cannot load. */
export interface StoredTensor {
  readonly path: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Bytes from the beginning of the file. */
  readonly byteOffset: number;
  readonly byteLength: number;
  /** See TensorSource. */
  readonly pairedRows?: number;
  /** What was added to each number when it was published. */
  readonly added?: number;
  /** Whether it is the transpose of the matrix that the original publishes. */
  readonly isTurned?: boolean;
  /** Whether its blocks are read as the numbers that they hold. */
  readonly isWidened?: boolean;
  /** Tensors [outputs, colours, ...size] of which it is made, [outputs, colours, frames, ...size], where they are published apart. */
  readonly frames?: readonly StoredTensor[];
}

/** The format's own limit. */
const MAX_HEADER_BYTES = 100_000_000;

/** Bytes an element of the formats whose size can be checked. */
const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  F64: 8,
  I64: 8,
  U64: 8,
  F32: 4,
  I32: 4,
  U32: 4,
  F16: 2,
  BF16: 2,
  I16: 2,
  U16: 2,
  F8_E4M3: 1,
  F8_E5M2: 1,
  I8: 1,
  U8: 1,
  BOOL: 1,
};

const count = z.int().nonnegative();
const header = z.record(
  z.string(),
  z.object({ dtype: z.string(), shape: z.array(count), data_offsets: z.tuple([count, count]) }),
);
const headerWithMetadata = z
  .looseObject({ __metadata__: z.record(z.string(), z.string()).optional() })
  .transform(({ __metadata__: _, ...tensors }) => tensors)
  .pipe(header);

/**
 * The tensors of a file by name.
 * @throws ModelLoadError naming the file and, where it is one tensor's fault, the tensor.
 */
export function readSafetensors(path: string): Map<string, StoredTensor> {
  const { text, dataStart, fileBytes } = readHeader(path);
  const entries = Object.entries(parseModelJson({ path: `header of ${path}`, text }, headerWithMetadata));
  expectOnce(path, text);
  // A tensor without numbers lies where the next one begins.
  entries.sort(([, { data_offsets: a }], [, { data_offsets: b }]) => a[0] - b[0] || a[1] - b[1]);
  const tensors = new Map<string, StoredTensor>();
  let free = 0;
  for (const [name, { dtype, shape, data_offsets }] of entries) {
    const [begin, end] = data_offsets;
    checkPlace(path, name, begin, end, free);
    checkSize(path, name, dtype, shape, end - begin);
    checkInside(path, name, dataStart + end, fileBytes);
    free = end;
    tensors.set(name, { path, dtype, shape, byteOffset: dataStart + begin, byteLength: end - begin });
  }
  checkEnd(path, entries.at(-1)?.[0], dataStart + free, fileBytes);
  return tensors;
}

/** Of two tensors of a name nobody can tell which one is meant. */
function expectOnce(path: string, header: string): void {
  const name = doubledField(header);
  if (name === null) return;
  throw new ModelLoadError(
    `${path}: the header has tensor ${shortened(name)} twice, expected each name once; fetch the file again`,
  );
}

/** Each tensor begins where the one before it ends. */
function checkPlace(path: string, name: string, begin: number, end: number, free: number): void {
  if (begin === free && end >= begin) return;
  const wrong = begin > free ? 'leaves a gap behind' : 'overlaps';
  throw new ModelLoadError(
    `${path}: tensor ${name} at bytes ${begin} to ${end} ${wrong} the one before it, which ends at ${free}; fetch the file again`,
  );
}

/** Bytes before the first tensor, as the file claims. */
export function headerBytesOf(path: string): number {
  const file = openModelFile(path);
  try {
    const prefix = Buffer.alloc(8);
    readSync(file, prefix, 0, 8, 0);
    return 8 + Number(prefix.readBigUInt64LE());
  } finally {
    closeSync(file);
  }
}

function checkSize(path: string, name: string, dtype: string, shape: readonly number[], bytes: number): void {
  const elementBytes = ELEMENT_BYTES[dtype];
  if (elementBytes === undefined) return;
  const expected = shape.reduce((product, length) => product * length, elementBytes);
  if (bytes !== expected) {
    throw new ModelLoadError(
      `${path}: tensor ${name} [${shape.join(', ')}] ${dtype} must take ${expected} bytes, the header gives it ${bytes}`,
    );
  }
}

function checkInside(path: string, name: string, end: number, fileBytes: number): void {
  if (end <= fileBytes) return;
  throw new ModelLoadError(
    `${path}: tensor ${name} ends at byte ${end}, the file has ${fileBytes}; it is cut off, fetch it again`,
  );
}

function checkEnd(path: string, last: string | undefined, end: number, fileBytes: number): void {
  if (end === fileBytes) return;
  const what = last === undefined ? 'the header, without tensors,' : `tensor ${last}, the last one,`;
  throw new ModelLoadError(
    `${path}: ${what} ends at byte ${end}, and so must the file, which has ${fileBytes}; fetch it again`,
  );
}

/** A file is: length of the header in 8 bytes, little-endian; the header, JSON; the tensors. */
function readHeader(path: string): { text: string; dataStart: number; fileBytes: number } {
  const file = openModelFile(path);
  try {
    const fileBytes = fstatSync(file).size;
    const prefix = Buffer.alloc(8);
    if (readSync(file, prefix, 0, 8, 0) < 8) {
      throw new ModelLoadError(`${path}: no safetensors file, it has ${fileBytes} bytes; fetch it again`);
    }
    const length = Number(prefix.readBigUInt64LE());
    if (length < 2 || length > MAX_HEADER_BYTES || 8 + length > fileBytes) {
      throw new ModelLoadError(
        `${path}: header of ${length} bytes expected in a file of ${fileBytes}; ` +
          'it is cut off or no safetensors file, fetch it again',
      );
    }
    const bytes = Buffer.alloc(length);
    readSync(file, bytes, 0, length, 8);
    return { text: bytes.toString('utf8'), dataStart: 8 + length, fileBytes };
  } finally {
    closeSync(file);
  }
}
