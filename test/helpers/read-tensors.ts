// Numbers out of golden files: *.safetensors and *.npy, widened to f32.

import { readFileSync } from 'node:fs';
import { readSafetensors } from '../../src/models/source/safetensors.ts';
import { unpackBf16 } from '../../src/ops/float-formats.ts';

export interface Numbers {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** A tensor of F32, or of I64 that fit into f32. */
export function readGolden(path: string, name: string): Numbers {
  const entry = readSafetensors(path).get(name);
  if (entry === undefined) throw new Error(`${path} has no tensor ${name}`);
  const bytes = readFileSync(path).subarray(entry.byteOffset, entry.byteOffset + entry.byteLength);
  return { shape: entry.shape, values: toF32(bytes, entry.dtype === 'F32' ? '<f4' : '<i8') };
}

/** bf16 is stored there as its bits, in unsigned 16-bit numbers. */
export function readNpy(path: string): Numbers {
  const file = readFileSync(path);
  const headerBytes = file.readUInt16LE(8);
  const header = file.toString('latin1', 10, 10 + headerBytes);
  const descr = /'descr': '([^']+)'/.exec(header)?.[1] ?? '';
  const shape = /'shape': \(([^)]*)\)/.exec(header)?.[1] ?? '';
  const sizes = shape
    .split(',')
    .filter((part) => part.trim() !== '')
    .map(Number);
  return { shape: sizes, values: toF32(file.subarray(10 + headerBytes), descr) };
}

function toF32(bytes: Uint8Array, descr: string): Float32Array {
  const buffer = new Uint8Array(bytes).buffer;
  if (descr === '<f4') return new Float32Array(buffer);
  if (descr === '<i8') return Float32Array.from(new BigInt64Array(buffer), Number);
  if (descr !== '<u2') throw new Error(`numbers of kind ${descr} are not read here`);
  const packed = new Uint16Array(buffer);
  const values = new Float32Array(packed.length);
  unpackBf16(packed, values);
  return values;
}
