// A KV cache that is freed: ops before have it until they have run, none after, and its memory is given back.

import { afterAll, expect, it } from 'vitest';
import type { Ops } from '../../src/ops/ops.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import { describeEachIsa, openCpu, Random } from './native-backends.ts';
import { beginStep } from './steps.ts';

const SHAPE = { layers: 1, blocks: 4, blockSize: 16, kvHeads: 1, headDim: 64, dtype: 'f32' } as const;
const ROWS = 40;

/** Attention over a cache of its own, which is freed before the numbers are read. */
function attendOnce(ops: Ops, seed: number): Float32Array {
  const numbers = new Random(seed).floats(ROWS * SHAPE.headDim);
  return ops.scope(() => {
    const cache = ops.makeKvCache(SHAPE);
    const x = ops.tensor(numbers, ROWS, SHAPE.headDim, 'f32');
    const slotMapping = Int32Array.from({ length: ROWS }, (_, slot) => slot);
    const step = beginStep(ops, cache, ROWS, { slotMapping });
    ops.storeKv(x, x, step, 0);
    const out = ops.attention(x, step, { layer: 0, scale: 1, window: null });
    cache.free();
    return ops.read(out);
  });
}

function tests(open: () => Ops): void {
  const ops = open();
  afterAll(() => ops.close());

  it('is there for the ops before', () => {
    const [first, other] = [attendOnce(ops, 1), attendOnce(ops, 2)];
    expect(attendOnce(ops, 1)).toEqual(first);
    expect(other).not.toEqual(first);
  });

  it('is refused afterwards, and its last step too', () => {
    const [cache, other] = [ops.makeKvCache(SHAPE), ops.makeKvCache(SHAPE)];
    const step = beginStep(ops, cache, 1);
    cache.free();
    expect(() => cache.free()).toThrow('a KV cache, got one that was freed');
    expect(() => beginStep(ops, cache, 1)).toThrow('a KV cache, got one that was freed');
    ops.scope(() => {
      const x = ops.tensor(new Float32Array(SHAPE.headDim), 1, SHAPE.headDim, 'f32');
      expect(() => ops.storeKv(x, x, step, 0)).toThrow('the step that was begun last, got another');
      ops.storeKv(x, x, beginStep(ops, other, 1), 0);
    });
    other.free();
  });
}

describeEachIsa('a KV cache that is freed', (isa) => tests(() => openCpu(isa, 1)));

describeCuda('a KV cache of a GPU that is freed', () => {
  tests(openCuda);

  it.each([false, true])('gives its memory back, shared: %s', (isShared) => {
    const ops = openCuda();
    const taken = () => ops.deviceMemory()!.takenBytes;
    const before = taken();
    const states = { layers: 2, slots: 3, width: 100_000 };
    const cache = ops.makeKvCache({ ...SHAPE, blocks: 1024, states }, isShared);
    expect(taken()).toBeGreaterThanOrEqual(before + 1024 * cache.layerBlockBytes + 2 * 3 * 100_000 * 4);
    cache.free();
    expect(taken()).toBe(before);
    ops.close();
  });
});
