import { writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { readSafetensors } from '../../src/models/source/safetensors.ts';
import { writeSafetensors } from '../fixtures/safetensors-writer.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newPath = temporaryFolders();

/** A file of a header as text and some bytes; `length` is what the first 8 bytes claim. */
function fileOf(header: string | object, dataBytes: number, length?: number | bigint): string {
  const text = typeof header === 'string' ? header : JSON.stringify(header);
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(length ?? Buffer.byteLength(text)));
  const path = newPath();
  writeFileSync(path, Buffer.concat([prefix, Buffer.from(text), Buffer.alloc(dataBytes)]));
  return path;
}

const f32 = (begin: number, end: number, shape = [(end - begin) / 4]) => ({
  dtype: 'F32',
  shape,
  data_offsets: [begin, end],
});

describe('readSafetensors', () => {
  it('tells where each tensor lies', () => {
    const header = { __metadata__: { format: 'pt' }, b: f32(8, 32, [2, 3]), a: f32(0, 8) };
    const path = fileOf(header, 32);
    const start = 8 + JSON.stringify(header).length;
    expect(Object.fromEntries(readSafetensors(path))).toEqual({
      a: { path, dtype: 'F32', shape: [2], byteOffset: start, byteLength: 8 },
      b: { path, dtype: 'F32', shape: [2, 3], byteOffset: start + 8, byteLength: 24 },
    });
  });

  it('takes numbers in formats that svc does not know, scalars and empty tensors', () => {
    const header = {
      a: { dtype: 'F4', shape: [3], data_offsets: [0, 2] },
      scalar: { dtype: 'I64', shape: [], data_offsets: [2, 10] },
      none: f32(10, 10, [0, 4]),
      first: f32(0, 0, [0]),
    };
    expect([...readSafetensors(fileOf(header, 10)).keys()]).toEqual(['first', 'a', 'scalar', 'none']);
  });

  it.each([
    ['a file that is not there', () => newPath(), /is missing; fetch the model again/],
    ['a file too short for a length', () => emptyFile(), /no safetensors file, it has 3 bytes/],
    [
      'a header longer than the file',
      () => fileOf('{}', 0, 1000),
      /header of 1000 bytes expected in a file of 10/,
    ],
    ['a header beyond all reason', () => fileOf('{}', 0, 2n ** 63n), /header of 9223372036854776000 bytes/],
    ['a header without length', () => fileOf('{}', 0, 0), /header of 0 bytes/],
    ['a header that is no JSON', () => fileOf('{"a": }', 0), /header of .* is not valid JSON/],
    ['a header of another form', () => fileOf({ a: { dtype: 'F32' } }, 0), /header of .*: a\.shape/],
    ['a negative offset', () => fileOf({ a: f32(-4, 0) }, 4), /a\.data_offsets/],
    [
      'a file cut off',
      () => fileOf({ a: f32(0, 8) }, 5),
      /tensor a ends at byte \d+, the file has \d+; it is cut off/,
    ],
    [
      'tensors that overlap',
      () => fileOf({ a: f32(0, 8), b: f32(4, 12) }, 12),
      /tensor b at bytes 4 to 12 overlaps/,
    ],
    ['an end before its beginning', () => fileOf({ a: f32(8, 4, [1]) }, 8), /tensor a at bytes 8 to 4/],
    [
      'a gap before the first tensor',
      () => fileOf({ a: f32(4, 8) }, 8),
      /tensor a at bytes 4 to 8 leaves a gap/,
    ],
    [
      'a gap between tensors',
      () => fileOf({ a: f32(0, 8), b: f32(12, 16) }, 16),
      /tensor b at bytes 12 to 16 leaves a gap behind the one before it, which ends at 8/,
    ],
    [
      'bytes behind the last tensor',
      () => fileOf({ a: f32(0, 8) }, 12),
      /tensor a, the last one, ends at byte \d+, and so must the file/,
    ],
    ['bytes of no tensor', () => fileOf({}, 4), /the header, without tensors, ends at byte 10/],
    [
      'a tensor that is there twice',
      () => {
        const twice = JSON.stringify({ a: f32(0, 8), b: f32(0, 8, [2, 1]) }).replace('"b"', '"\\u0061"');
        return fileOf(twice, 8);
      },
      /the header has tensor a twice/,
    ],
    [
      'bytes that do not fit the shape',
      () => fileOf({ a: f32(0, 8, [3]) }, 8),
      /tensor a \[3\] F32 must take 12 bytes, the header gives it 8/,
    ],
  ])('refuses %s', (_, make, message) => {
    const path = make();
    expect(() => readSafetensors(path)).toThrow(ModelLoadError);
    expect(() => readSafetensors(path)).toThrow(message);
    expect(() => readSafetensors(path)).toThrow(path);
  });

  it('reads back what the writer writes', () => {
    const shapes = fc.array(fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }), { maxLength: 8 });
    fc.assert(
      fc.property(shapes, fc.constantFrom('f32', 'f16', 'bf16'), (all, dtype) => {
        const tensors = all.map((shape, i) => ({ name: `tensor.${i}`, shape }));
        const path = newPath();
        const size = dtype === 'f32' ? 4 : 2;
        const bytes = (shape: readonly number[]) => shape.reduce((product, n) => product * n, size);
        writeSafetensors(path, tensors, dtype, ({ shape }) => [new Uint8Array(bytes(shape))]);
        const read = [...readSafetensors(path)].map(([name, { shape, byteLength }]) => ({
          name,
          shape,
          byteLength,
        }));
        const expected = tensors.map((tensor) => ({ ...tensor, byteLength: bytes(tensor.shape) }));
        expect(read).toEqual(expected);
      }),
      { numRuns: 50 },
    );
  });
});

function emptyFile(): string {
  const path = newPath();
  writeFileSync(path, 'abc');
  return path;
}
