// Writes *.safetensors files: for the models that svc makes itself.

import { closeSync, openSync, writeSync } from 'node:fs';
import { BYTES_PER_ELEMENT, type StorageDType } from '../../ops/dtype.ts';

export interface TensorShape {
  readonly name: string;
  readonly shape: readonly number[];
}

/** What the tensor takes in a file. */
export function storedBytes({ shape }: TensorShape, dtype: StorageDType): number {
  return shape.reduce((product, length) => product * length, BYTES_PER_ELEMENT[dtype]);
}

/** @param content gives a tensor's bytes in pieces, together `storedBytes` of them; it is called in their order. */
export function writeSafetensors(
  path: string,
  tensors: readonly TensorShape[],
  dtype: StorageDType,
  content: (tensor: TensorShape) => Iterable<Uint8Array>,
): void {
  const file = openSync(path, 'w');
  try {
    writeSync(file, header(tensors, dtype));
    for (const tensor of tensors) for (const bytes of content(tensor)) writeSync(file, bytes);
  } finally {
    closeSync(file);
  }
}

/** Length of the JSON in 8 bytes, then the JSON, filled up with spaces so that the tensors begin aligned. */
function header(tensors: readonly TensorShape[], dtype: StorageDType): Uint8Array {
  const entries: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let begin = 0;
  for (const tensor of tensors) {
    const end = begin + storedBytes(tensor, dtype);
    entries[tensor.name] = { dtype: dtype.toUpperCase(), shape: tensor.shape, data_offsets: [begin, end] };
    begin = end;
  }
  const json = JSON.stringify(entries);
  const length = Math.ceil(Buffer.byteLength(json) / 8) * 8;
  const bytes = Buffer.alloc(8 + length, ' ');
  bytes.writeBigUInt64LE(BigInt(length));
  bytes.write(json, 8);
  return bytes;
}
