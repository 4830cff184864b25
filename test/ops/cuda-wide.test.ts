// The CUDA backend on an emulated Hopper GPU: its kernels for products give a row the same bits beside few others and beside many.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type LinearPart, plainPart } from '../../src/ops/weights.ts';
import { compileChanged } from '../helpers/changed-kernels.ts';
import { needsCudaEmulator, openCuda } from '../helpers/cuda-emulator.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { BF16_ROUNDING, expectClose, Random, sumTolerance } from './native-backends.ts';

describe.each(['bf16', 'f16'] as const)('products of %s on Hopper', needsCudaEmulator, (half) => {
  const weights = new WeightFolder();
  const folder = mkdtempSync(join(tmpdir(), 'svc-wide-'));
  let hopper: Ops;
  beforeAll(() => {
    const kernels = join(folder, 'hopper.so');
    const ofHalf = half === 'f16' ? join(folder, 'hopper-f16.so') : kernels;
    const changes = ['linear.cu', 'linear_wide.cu'].map((file) => ({ file, from: /^/, to: '' }));
    compileChanged(ofHalf, changes, ['SVC_EMULATE_WARPGROUPS', ...(half === 'f16' ? ['SVC_F16'] : [])]);
    vi.stubEnv('SVC_CUDA_KERNELS', kernels);
    // Of an H100: with fewer, no block of threads would leave a part of k to others.
    vi.stubEnv('SVC_EMULATED_MULTIPROCESSORS', '132');
    hopper = openCuda(false, undefined, half);
    vi.unstubAllEnvs();
  }, 120_000);
  afterAll(() => {
    hopper.close();
    weights.remove();
    rmSync(folder, { recursive: true });
  });

  const [rows, n, k] = [260, 136, 1610];
  const random = new Random(1);
  const part = (): LinearPart =>
    plainPart(weights.write([n, k], random.floats(n * k), half), weights.write([n], random.floats(n)));
  const x = random.floats(rows * k, half);
  const residual = random.floats(rows * n);

  /** Rows from `first` on, of what `compute` makes of them. */
  function run(
    ops: Ops,
    first: number,
    count: number,
    compute: (ops: Ops, x: Tensor) => Tensor,
  ): Float32Array {
    const own = x.subarray(first * k, (first + count) * k);
    return ops.scope(() => ops.read(compute(ops, ops.tensor(own, count, k, half))));
  }

  function expectRowsAlike(width: number, compute: (ops: Ops, x: Tensor) => Tensor): void {
    const all = run(hopper, 0, rows, compute);
    for (const [first, count] of [
      [0, 1],
      [200, 60],
      [100, 130],
    ] as const) {
      expect(run(hopper, first, count, compute)).toEqual(
        all.subarray(first * width, (first + count) * width),
      );
    }
    const expected = run(new ReferenceOps(half), 0, rows, compute);
    expectClose(all, expected, {
      ...sumTolerance(k),
      relative: half === 'f16' ? 2 ** -10 : 2 * BF16_ROUNDING,
    });
  }

  it.each([false, true])('have the bits of few rows, k split: %s', (splitsK) => {
    const own = part();
    expectRowsAlike(n, (ops, input) => ops.linear(input, ops.loadLinear([own], half, splitsK)));
  });

  it('have them of gate and up', () => {
    const [gate, up] = [part(), part()];
    expectRowsAlike(n, (ops, input) => ops.gateUp(input, ops.loadGateUp(gate, up, half), 'silu'));
  });

  it('are none of no rows', () => {
    const [own, other] = [part(), part()];
    expect(run(hopper, 0, 0, (ops, input) => ops.linear(input, ops.loadLinear([own], half)))).toEqual(
      new Float32Array(0),
    );
    const gated = (ops: Ops, input: Tensor) => ops.gateUp(input, ops.loadGateUp(own, other, half), 'silu');
    expect(run(hopper, 0, 0, gated)).toEqual(new Float32Array(0));
  });

  it('add to what is there', () => {
    const own = part();
    const compute = (ops: Ops) =>
      ops.scope(() => {
        const out = ops.tensor(residual, rows, n, 'f32');
        ops.addLinear(out, ops.tensor(x, rows, k, half), ops.loadLinear([own], half, true));
        return ops.read(out);
      });
    expectClose(compute(hopper), compute(new ReferenceOps(half)), sumTolerance(k));
  });
});
