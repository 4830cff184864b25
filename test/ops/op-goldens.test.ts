// Single ops and rope tables against arrays that were captured from another program.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ropeTable } from '../../src/models/layers/rope.ts';
import { resolveRope, ropeFields } from '../../src/models/rope-config.ts';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { type Numbers, readNpy } from '../helpers/read-tensors.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { beginStepAt } from './steps.ts';

const root = sharedFixture('goldens/ops');
const manifest = z.object({
  args: z.looseObject({
    eps: z.number().optional(),
    scale: z.number().optional(),
    max_position: z.number().optional(),
    rope_parameters: ropeFields.extend({ rope_dim: z.number() }).optional(),
  }),
  tol: z.object({ atol: z.number(), rtol: z.number() }),
});

function golden(name: string) {
  const folder = join(root!, name);
  const { args, tol } = manifest.parse(JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')));
  const read = (file: string) => readNpy(join(folder, `${file}.npy`));
  const close = (got: ArrayLike<number>, want: Numbers) => {
    expect(got.length).toBe(want.values.length);
    for (const [i, value] of want.values.entries()) {
      expect(Math.abs(got[i]! - value)).toBeLessThanOrEqual(tol.atol + tol.rtol * Math.abs(value));
    }
  };
  return { args, read, close };
}

/** As a tensor of rows; the last size is the columns. */
function tensor(ops: Ops, { shape, values }: Numbers, dtype: 'f32' | 'bf16' = 'f32'): Tensor {
  const rows = shape[0]!;
  return ops.tensor(values, rows, values.length / rows, dtype);
}

/** Rotates the first numbers of each head, as many as the table is wide. */
function rotate(ops: Ops, x: Tensor, headDim: number, positions: Int32Array, table: RopeTable): Float32Array {
  ops.rope(x, beginStepAt(ops, positions), ops.makeVector(table.values), {
    headDim,
    rotaryDim: table.rotary,
  });
  return ops.read(x);
}

interface RopeTable {
  readonly rotary: number;
  readonly values: Float32Array;
}

describe.each(availableBackends)('on the %s backend', needsShared(root), (backend) => {
  const ops = openBackend(backend);
  const folder = new WeightFolder();
  afterAll(() => {
    folder.remove();
    ops.close();
  });

  it.each([
    ['rmsnorm_f32_8x128', 'f32'],
    ['rmsnorm_bf16_8x128', 'bf16'],
  ] as const)('rmsNorm gives %s', (name, dtype) => {
    const { args, read, close } = golden(name);
    const weight = ops.makeVector(read('weight').values);
    const out = ops.scope(() => ops.read(ops.rmsNorm(tensor(ops, read('x')), weight, args.eps!, dtype)));
    close(out, read('out'));
  });

  it('rmsNorm of a sum gives rmsnorm_fused_residual_f32_8x128', () => {
    const { args, read, close } = golden('rmsnorm_fused_residual_f32_8x128');
    const sum = read('residual_in').values.map((value, i) => value + read('x').values[i]!);
    close(sum, read('residual_out'));
    const weight = ops.makeVector(read('weight').values);
    const x = { shape: read('x').shape, values: sum };
    close(
      ops.scope(() => ops.read(ops.rmsNorm(tensor(ops, x), weight, args.eps!, 'f32'))),
      read('out'),
    );
  });

  it('linear gives matmul_bf16_16x64x32', () => {
    const { read, close } = golden('matmul_bf16_16x64x32');
    const b = read('b');
    const [k, n] = [b.shape[0]!, b.shape[1]!];
    const transposed = Float32Array.from(
      { length: n * k },
      (_, i) => b.values[(i % k) * n + Math.floor(i / k)]!,
    );
    const weight = ops.loadLinear([plainPart(folder.write([n, k], transposed, 'bf16'))], 'bf16');
    close(
      ops.scope(() => ops.read(ops.linear(tensor(ops, read('a'), 'bf16'), weight))),
      read('out'),
    );
  });

  it('gateUp with unit projections gives silu_and_mul_bf16_8x256', () => {
    const { read, close } = golden('silu_and_mul_bf16_8x256');
    const unit = (first: number) => {
      const values = new Float32Array(128 * 256);
      for (let i = 0; i < 128; i++) values[i * 256 + first + i] = 1;
      return plainPart(folder.write([128, 256], values));
    };
    const weight = ops.loadGateUp(unit(0), unit(128), 'bf16');
    close(
      ops.scope(() => ops.read(ops.gateUp(tensor(ops, read('x'), 'bf16'), weight, 'silu'))),
      read('out'),
    );
  });

  it('embedding gives embedding_bf16_32ids', () => {
    const { read, close } = golden('embedding_bf16_32ids');
    const { shape, values } = read('table');
    const table = ops.loadLinear([plainPart(folder.write(shape, values, 'bf16'))], 'bf16');
    close(
      ops.scope(() =>
        ops.read(ops.embedding({ ids: Int32Array.from(read('ids').values), sampled: null }, table)),
      ),
      read('out'),
    );
  });

  it('rope gives rope_f32_pos_short', () => {
    const { read, close } = golden('rope_f32_pos_short');
    const positions = Int32Array.from(read('positions').values);
    const values = ropeTable({ kind: 'default', theta: 10000 }, 32, Math.max(...positions) + 1);
    for (const kind of ['q', 'k']) {
      const x = tensor(ops, read(`${kind}_in`));
      close(rotate(ops, x, 64, positions, { rotary: 32, values }), read(`${kind}_out`));
    }
  });

  it.each([
    ['long_rope_llama3_neox_f32_bands', 24],
    ['long_rope_yarn_neox_f32_truncate', 16],
  ] as const)('its table and rope give %s', (name, headDim) => {
    const { args, read, close } = golden(name);
    const fields = args.rope_parameters!;
    const rope = resolveRope({
      path: name,
      fields,
      theta: fields.rope_theta!,
      maxPositionEmbeddings: args.max_position!,
      rotaryDim: fields.rope_dim,
    });
    const values = ropeTable(rope, fields.rope_dim, args.max_position!);
    close(values, read('cos_sin_cache'));
    const positions = Int32Array.from(read('positions').values);
    for (const kind of ['q', 'k']) {
      const table = { rotary: fields.rope_dim, values };
      const x = tensor(ops, read(`${kind}_in`));
      close(rotate(ops, x, headDim, positions, table), read(`${kind}_out`));
    }
  });

  it('head norms, rope and attention together give dense_attention_f32_small', () => {
    const { args, read, close } = golden('dense_attention_f32_small');
    const positions = Int32Array.from(read('positions').values);
    const values = ropeTable({ kind: 'default', theta: 10000 }, 4, positions.length);
    const prepare = (kind: 'q' | 'k') => {
      const x = tensor(ops, read(kind));
      // Published there around zero, as this model family does; the norm multiplies by 1 + weight.
      const weight = ops.makeVector(read(`${kind}_norm_weight`).values.map((value) => 1 + value));
      ops.qkNorm(x, weight, args.eps!);
      rotate(ops, x, 8, positions, { rotary: 4, values });
      return x;
    };
    const shape = { layers: 1, blocks: 1, blockSize: 16, kvHeads: 2, headDim: 8, dtype: 'f32' } as const;
    const cache = ops.makeKvCache(shape);
    const batch = {
      numSequences: 1,
      queryStarts: Int32Array.of(0, positions.length),
      contextLengths: Int32Array.of(positions.length),
      blockTables: Int32Array.of(0),
      maxBlocks: 1,
    };
    const out = ops.scope(() => {
      const [q, k] = [prepare('q'), prepare('k')];
      const step = ops.beginStep(cache, { positions, slotMapping: positions, batch });
      ops.storeKv(k, tensor(ops, read('v')), step, 0);
      return ops.read(ops.attention(q, step, { layer: 0, scale: args.scale!, window: null }));
    });
    close(out, read('attn'));
  });
});
