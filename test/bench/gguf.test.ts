import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packQ4, packQ8 } from '../../bench/peers/ggml-blocks.ts';
import { writeGgufModel } from '../../bench/peers/gguf-model.ts';
import { readSafetensors } from '../../src/models/source/safetensors.ts';
import { unpackBf16, unpackF16 } from '../../src/ops/float-formats.ts';
import { type GgufTensor, writeGguf } from '../fixtures/gguf-writer.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newPath = temporaryFolders();

/** A reader of its own, after the specification: magic, version, counts, metadata, tensor infos, padding, data. */
class GgufReader {
  readonly #bytes: Buffer;
  #at = 4;
  readonly magic: string;
  readonly version: number;
  readonly metadata = new Map<string, unknown>();
  readonly tensors = new Map<string, { dimensions: number[]; type: number; offset: number }>();
  readonly dataStart: number;

  constructor(path: string) {
    this.#bytes = readFileSync(path);
    this.magic = this.#bytes.toString('latin1', 0, 4);
    this.version = this.#u32();
    const numTensors = this.#u64();
    const numKeys = this.#u64();
    for (let i = 0; i < numKeys; i++) this.metadata.set(this.#string(), this.#value(this.#u32()));
    for (let i = 0; i < numTensors; i++) {
      const name = this.#string();
      const dimensions = Array.from({ length: this.#u32() }, () => this.#u64());
      this.tensors.set(name, { dimensions, type: this.#u32(), offset: this.#u64() });
    }
    this.dataStart = Math.ceil(this.#at / 32) * 32;
  }

  get size(): number {
    return this.#bytes.length;
  }

  /** A copy, so that it is aligned for any format. */
  data(name: string, length: number): Uint8Array {
    const begin = this.dataStart + this.tensors.get(name)!.offset;
    return Uint8Array.from(this.#bytes.subarray(begin, begin + length));
  }

  #u32(): number {
    this.#at += 4;
    return this.#bytes.readUInt32LE(this.#at - 4);
  }

  #u64(): number {
    this.#at += 8;
    return Number(this.#bytes.readBigUInt64LE(this.#at - 8));
  }

  #string(): string {
    const length = this.#u64();
    this.#at += length;
    return this.#bytes.toString('utf8', this.#at - length, this.#at);
  }

  #value(type: number): unknown {
    if (type === 4 || type === 5) return this.#u32();
    if (type === 6) {
      this.#at += 4;
      return this.#bytes.readFloatLE(this.#at - 4);
    }
    if (type === 8) return this.#string();
    if (type !== 9) throw new Error(`value type ${type}`);
    const itemType = this.#u32();
    return Array.from({ length: this.#u64() }, () => this.#value(itemType));
  }
}

describe('writeGguf', () => {
  it('writes metadata and tensors that a reader of the specification finds, each tensor at a multiple of 32', () => {
    const path = newPath();
    const tensors: GgufTensor[] = [
      { name: 'odd', type: 'F32', shape: [3] },
      { name: 'matrix', type: 'Q8_0', shape: [2, 64] },
      { name: 'last', type: 'BF16', shape: [1, 2, 5] },
    ];
    const lengths = new Map([
      ['odd', 12],
      ['matrix', 136],
      ['last', 20],
    ]);
    const metadata = {
      'a.count': { u32: 7 },
      'a.number': { f32: 0.5 },
      'a.text': { string: 'Ġüber' },
      'a.texts': { strings: ['x', '', 'yz'] },
      'a.numbers': { i32s: [1, 2, 3] },
    };
    writeGguf(path, metadata, tensors, function* ({ name }) {
      const bytes = new Uint8Array(lengths.get(name)!).fill(name.charCodeAt(0));
      yield bytes.subarray(0, 5);
      yield bytes.subarray(5);
    });
    const file = new GgufReader(path);
    expect([file.magic, file.version]).toEqual(['GGUF', 3]);
    expect(Object.fromEntries(file.metadata)).toEqual({
      'a.count': 7,
      'a.number': 0.5,
      'a.text': 'Ġüber',
      'a.texts': ['x', '', 'yz'],
      'a.numbers': [1, 2, 3],
    });
    expect(Object.fromEntries(file.tensors)).toEqual({
      odd: { dimensions: [3], type: 0, offset: 0 },
      matrix: { dimensions: [64, 2], type: 8, offset: 32 },
      last: { dimensions: [5, 2, 1], type: 30, offset: 192 },
    });
    expect(file.size).toBe(file.dataStart + 224);
    for (const [name, length] of lengths) {
      expect([...new Set(file.data(name, length))]).toEqual([name.charCodeAt(0)]);
    }
  });
});

/** Numbers of any sign, and a block of zeros at the end. */
const NUMBERS = Float32Array.from({ length: 96 }, (_, i) =>
  i < 64 ? Math.sin(i * i) * (i < 32 ? 1 : 1e-3) : 0,
);

describe('blocks of ggml', () => {
  it('Q8_0 has in each block of 34 bytes the f16 of largest size / 127 and the nearest whole multiples of it', () => {
    const bytes = Buffer.from(packQ8(NUMBERS));
    expect(bytes.length).toBe(3 * 34);
    for (let block = 0; block < 3; block++) {
      const values = NUMBERS.subarray(32 * block, 32 * (block + 1));
      const largest = Math.max(...values.map(Math.abs));
      const scale = halfAt(bytes, 34 * block);
      expect(Math.abs(scale - largest / 127)).toBeLessThanOrEqual((largest / 127) * 2 ** -11 + 2 ** -25);
      const whole = Array.from(values, (_, i) => bytes.readInt8(34 * block + 2 + i));
      expect(whole).toEqual(
        Array.from(values, (value) => (largest === 0 ? 0 : nearest(value, largest / 127))),
      );
    }
  });

  it('Q4_0 has in each block of 18 bytes the f16 of the largest number / -8 and whole multiples of it plus 8', () => {
    const bytes = Buffer.from(packQ4(NUMBERS));
    expect(bytes.length).toBe(3 * 18);
    for (let block = 0; block < 2; block++) {
      const values = NUMBERS.subarray(32 * block, 32 * (block + 1));
      const largest = values.find((value) => Math.abs(value) === Math.max(...values.map(Math.abs)))!;
      const scale = halfAt(bytes, 18 * block);
      expect(scale / (largest / -8)).toBeCloseTo(1, 3);
      for (const [i, value] of values.entries()) {
        const byte = bytes[18 * block + 2 + (i % 16)]!;
        const whole = (i < 16 ? byte & 15 : byte >> 4) - 8;
        // Of the size that the largest number has, the other sign has only 7 steps.
        const isCut = value / scale > 7.5;
        expect(Math.abs(whole - value / scale)).toBeLessThanOrEqual(isCut ? 1.01 : 0.51);
        if (value === largest) expect(whole).toBe(-8);
      }
    }
    expect(Math.abs(halfAt(bytes, 36))).toBe(0);
    expect([...bytes.subarray(38)]).toEqual(new Array(16).fill(0x88));
  });
});

describe('writeGgufModel', () => {
  it('writes a Qwen2 checkpoint with its hyperparameters, and every weight under its name in GGUF', () => {
    const folder = newPath();
    mkdirSync(folder);
    const config = { hidden_size: 64, intermediate_size: 96, rope_theta: 5000 };
    writeTinyModel(folder, { architecture: 'Qwen2ForCausalLM', dtype: 'bf16', config });
    const stored = readSafetensors(join(folder, 'model.safetensors'));
    writeGgufModel(folder, join(folder, 'model.gguf'), 'BF16');
    const file = new GgufReader(join(folder, 'model.gguf'));
    expect(Object.fromEntries(file.metadata)).toMatchObject({
      'general.architecture': 'qwen2',
      'qwen2.block_count': 3,
      'qwen2.embedding_length': 64,
      'qwen2.feed_forward_length': 96,
      'qwen2.attention.head_count': 4,
      'qwen2.attention.head_count_kv': 2,
      'qwen2.rope.freq_base': 5000,
      'qwen2.attention.layer_norm_rms_epsilon': Math.fround(1e-6),
    });
    expect(file.tensors.size).toBe(stored.size);
    const matrix = stored.get('model.layers.2.mlp.down_proj.weight')!;
    expect(file.tensors.get('blk.2.ffn_down.weight')).toMatchObject({ dimensions: [96, 64], type: 30 });
    expect(file.data('blk.2.ffn_down.weight', matrix.byteLength)).toEqual(storedBytes(matrix));
    const bias = stored.get('model.layers.1.self_attn.k_proj.bias')!;
    expect(file.tensors.get('blk.1.attn_k.bias')).toMatchObject({ dimensions: [32], type: 0 });
    const expected = new Float32Array(32);
    unpackBf16(new Uint16Array(storedBytes(bias).buffer), expected);
    expect(new Float32Array(file.data('blk.1.attn_k.bias', 128).buffer)).toEqual(expected);
  });

  it('refuses an architecture whose matrices GGUF keeps in another order', () => {
    const folder = newPath();
    writeTinyModel(folder, { architecture: 'LlamaForCausalLM' });
    expect(() => writeGgufModel(folder, join(folder, 'model.gguf'), 'F32')).toThrow(
      'only a plain Qwen2 is written as GGUF, not LlamaForCausalLM',
    );
  });
});

function storedBytes({
  path,
  byteOffset,
  byteLength,
}: {
  path: string;
  byteOffset: number;
  byteLength: number;
}) {
  return Uint8Array.from(readFileSync(path).subarray(byteOffset, byteOffset + byteLength));
}

function halfAt(bytes: Buffer, at: number): number {
  const value = new Float32Array(1);
  unpackF16(Uint16Array.of(bytes.readUInt16LE(at)), value);
  return value[0]!;
}

function nearest(value: number, step: number): number {
  return Math.sign(value) * Math.round(Math.abs(value) / step);
}
