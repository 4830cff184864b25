// Typed arrays of equal bytes are equal at once: vitest's own comparison takes a microsecond for each number, which was
// most of the time of tests that compare bits. Where bytes differ, that comparison decides and shows where.

import { expect } from 'vitest';

expect.addEqualityTesters([
  (a: unknown, b: unknown) =>
    ArrayBuffer.isView(a) && ArrayBuffer.isView(b) && isSameKind(a, b) && bytes(a).equals(bytes(b))
      ? true
      : undefined,
]);

function isSameKind(a: ArrayBufferView, b: ArrayBufferView): boolean {
  return Object.getPrototypeOf(a) === Object.getPrototypeOf(b);
}

function bytes({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
