import { expect, it } from 'vitest';

it('tells typed arrays apart by their numbers, their length and their kind', () => {
  expect(Float32Array.of(1, 2)).toEqual(Float32Array.of(0, 1, 2).subarray(1));
  expect({ bits: [Float32Array.of(Number.NaN)] }).toEqual({ bits: [Float32Array.of(Number.NaN)] });
  expect(Float32Array.of(1, 2)).not.toEqual(Float32Array.of(1, 2.5));
  expect(Float32Array.of(0)).not.toEqual(Float32Array.of(-0));
  expect(Float32Array.of(1, 2)).not.toEqual(Float32Array.of(1));
  expect(Int32Array.of(1)).not.toEqual(Uint32Array.of(1));
});
