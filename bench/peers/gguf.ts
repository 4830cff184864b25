// Writes GGUF files, version 3 (ggml-org/ggml, docs/gguf.md): the one file that holds a model of llama.cpp.

import { closeSync, openSync, writeSync } from 'node:fs';

/** How a tensor's numbers are stored: `id` in the file, and the bytes that a block of `values` numbers takes. */
export const GGML_TYPES = {
  F32: { id: 0, values: 1, bytes: 4 },
  BF16: { id: 30, values: 1, bytes: 2 },
  Q4_0: { id: 2, values: 32, bytes: 18 },
  Q8_0: { id: 8, values: 32, bytes: 34 },
} as const;

export type GgmlType = keyof typeof GGML_TYPES;

export interface GgufTensor {
  readonly name: string;
  readonly type: GgmlType;
  /** As in a checkpoint: the last dimension is contiguous. */
  readonly shape: readonly number[];
}

/** What the file says of the model; whole numbers are written as such, others as f32. */
export type GgufValue =
  | { readonly u32: number }
  | { readonly f32: number }
  | { readonly string: string }
  | { readonly strings: readonly string[] }
  | { readonly i32s: readonly number[] };

const VERSION = 3;
/** Tensors begin at multiples of it, counted from the first one, which does in the file. */
const ALIGNMENT = 32;

const VALUE_TYPES = { u32: 4, i32: 5, f32: 6, string: 8, array: 9 } as const;

/** @param content gives a tensor's bytes in pieces, together `tensorBytes` of them; it is called in their order. */
export function writeGguf(
  path: string,
  metadata: Readonly<Record<string, GgufValue>>,
  tensors: readonly GgufTensor[],
  content: (tensor: GgufTensor) => Iterable<Uint8Array>,
): void {
  const file = openSync(path, 'w');
  try {
    writeSync(file, padded(header(metadata, tensors)));
    for (const tensor of tensors) {
      for (const bytes of content(tensor)) writeSync(file, bytes);
      writeSync(file, Buffer.alloc(padding(tensorBytes(tensor))));
    }
  } finally {
    closeSync(file);
  }
}

/** What the tensor takes in the file, without the padding behind it. */
export function tensorBytes({ shape, type }: GgufTensor): number {
  const { values, bytes } = GGML_TYPES[type];
  return (shape.reduce((product, length) => product * length, 1) / values) * bytes;
}

function header(metadata: Readonly<Record<string, GgufValue>>, tensors: readonly GgufTensor[]): Buffer {
  const entries = Object.entries(metadata);
  const parts = [Buffer.from('GGUF'), u32(VERSION), u64(tensors.length), u64(entries.length)];
  for (const [key, value] of entries) parts.push(string(key), typedValue(value));
  let offset = 0;
  for (const tensor of tensors) {
    const { name, type, shape } = tensor;
    // The format counts dimensions from the contiguous one.
    const dimensions = shape.toReversed().map(u64);
    parts.push(string(name), u32(shape.length), ...dimensions, u32(GGML_TYPES[type].id), u64(offset));
    offset += tensorBytes(tensor) + padding(tensorBytes(tensor));
  }
  return Buffer.concat(parts);
}

function typedValue(value: GgufValue): Buffer {
  if ('u32' in value) return Buffer.concat([u32(VALUE_TYPES.u32), u32(value.u32)]);
  if ('f32' in value) return Buffer.concat([u32(VALUE_TYPES.f32), f32(value.f32)]);
  if ('string' in value) return Buffer.concat([u32(VALUE_TYPES.string), string(value.string)]);
  if ('strings' in value) return array(VALUE_TYPES.string, value.strings.map(string));
  return array(VALUE_TYPES.i32, value.i32s.map(u32));
}

function array(type: number, items: readonly Buffer[]): Buffer {
  return Buffer.concat([u32(VALUE_TYPES.array), u32(type), u64(items.length), ...items]);
}

function string(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([u64(bytes.length), bytes]);
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(padding(bytes.length))]);
}

function padding(length: number): number {
  return (ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT;
}
