// Wrong calls of the native backend: each is an error that says what was wrong, and no memory is touched.

import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { ConfigError, HostMemoryError, ModelLoadError, ShapeError } from '../../src/errors.ts';
import { chooseIsa, chooseThreads, loadNative } from '../../src/native/native.ts';
import type { AttentionBatch, TokenIds } from '../../src/ops/ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, openCpu } from './native-backends.ts';
import { beginStep, beginStepAt, beginStepInto } from './steps.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const ints = (...values: number[]): Int32Array => Int32Array.from(values);
const known = (...ids: number[]): TokenIds => ({ ids: ints(...ids), sampled: null });

describeEachIsa('wrong calls', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());
  const zeros = (rows: number, cols: number) => cpu.tensor(new Float32Array(rows * cols), rows, cols, 'f32');
  const weight = (n: number, k: number) => plainPart(folder.write([n, k], new Float32Array(n * k)));
  const cacheShape = { layers: 2, blocks: 3, blockSize: 16, kvHeads: 1, headDim: 8, dtype: 'f32' } as const;

  it('of linear name the op and both shapes', () => {
    const w = cpu.loadLinear([weight(4, 8)], 'f32');
    expect(() => cpu.linear(zeros(2, 7), w)).toThrow(/linear: expected x \[any, 8\] f32, got \[2, 7\] f32/);
    expect(() => cpu.addLinear(zeros(2, 5), zeros(2, 8), w)).toThrow(ShapeError);
    expect(() => cpu.linear(cpu.tensor(new Float32Array(8), 1, 8, 'bf16'), w)).toThrow(ShapeError);
  });

  it('of the load functions with numbers in another array than of floats of 32 bits are refused', () => {
    const { CpuBackend } = loadNative();
    const native = new CpuBackend(isa, 1);
    const { path } = folder.write([4], [1, 2, 3, 4]);
    const source = { name: 'w', path, byteOffset: 0, dtype: 'f32', rowLength: 4, firstRow: 0 };
    const load = (numbers: unknown) => () =>
      native.loadVector({ ...source, firstCol: 0, pairedRows: 0, numbers } as never, 4);
    expect(load(new Float64Array(4))).toThrow(/expected w in a Float32Array, got something else/);
    expect(load(new Uint8Array(4))).toThrow(/expected w in a Float32Array/);
    expect(load(new Float32Array(4))).not.toThrow();
    native.close();
  });

  it('to load a vector that ends within a head are refused', () => {
    const { CpuBackend } = loadNative();
    const native = new CpuBackend(isa, 1);
    const { path } = folder.write([6], [1, 2, 3, 4, 5, 6]);
    const place = {
      path,
      byteOffset: 0,
      dtype: 'f32',
      rowLength: 6,
      firstRow: 0,
      firstCol: 0,
      planeRows: 0,
    } as const;
    const load = () => native.loadVector({ ...place, name: 'b', pairedRows: 4, numbers: null }, 6);
    expect(load).toThrow('tensor b has 6 numbers, expected whole heads of 4');
    native.close();
  });

  it('of a KV cache with the groups of its layers in bytes, or of a tensor behind the last number, are refused', () => {
    const { CpuBackend } = loadNative();
    const native = new CpuBackend(isa, 1);
    const groups = new Uint8Array(8) as never;
    expect(() =>
      native.makeKvCache(groups, new Int32Array(0), 1, 16, 1, 8, 'f32', false, 0, 0, 0, false),
    ).toThrow(/makeKvCache: expected a typed array, got argument 0/);
    const most = Number.MAX_SAFE_INTEGER;
    expect(() => native.scale(2, 0, most, 8, most)).toThrow(/expected a tensor inside the arena/);
    native.close();
  });

  it('with tensors of a closed scope are refused', () => {
    const stale = cpu.scope(() => zeros(2, 8));
    expect(() => cpu.read(stale)).toThrow(/scope is open, got a freed one/);
  });

  it('with tensors of a scope that was closed from outside are refused, and its memory is used again', () => {
    const outer = cpu.openScope();
    const kept = cpu.tensor(Float32Array.of(7), 1, 1, 'f32');
    cpu.openScope();
    const inner = zeros(2, 8);
    expect([...cpu.read(kept)]).toEqual([7]);
    outer.close();
    cpu.scope(() => {
      const reused = cpu.tensor(Float32Array.of(9), 1, 1, 'f32');
      outer.close();
      expect([...cpu.read(reused)]).toEqual([9]);
    });
    for (const stale of [kept, inner]) expect(() => cpu.read(stale)).toThrow(/got a freed one/);
  });

  it('with a weight of another backend are refused', () => {
    const other = openCpu(isa, 1);
    const w = other.loadLinear([weight(4, 8)], 'f32');
    expect(() => cpu.linear(zeros(2, 8), w)).toThrow(/of this backend/);
    other.close();
  });

  it('with ids, rows, positions or slots out of range say which', () => {
    const table = cpu.loadLinear([weight(5, 4)], 'f32');
    expect(() => cpu.embedding(known(1, 5), table)).toThrow(/ids from 0 to 4, got 5 in row 1/);
    expect(() => cpu.embedding(known(-1), table)).toThrow(ShapeError);
    expect(() => cpu.gatherRows(zeros(3, 4), ints(3))).toThrow(/rows from 0 to 2, got 3 in row 0/);
    const angles = cpu.makeVector(new Float32Array(4 * 8));
    const rope = (position: number) =>
      cpu.rope(zeros(1, 8), beginStepAt(cpu, ints(position)), angles, { headDim: 8 });
    expect(() => rope(4)).toThrow(/positions from 0 to 3, got 4/);
    expect(() => rope(-1)).toThrow(/positions from 0 to .*, got -1 in row 0/);
    const cache = cpu.makeKvCache(cacheShape);
    const inPlane = (...places: number[]) => {
      const step = beginStep(cpu, cache, 1, { planePositions: ints(...places) });
      cpu.rope(zeros(1, 8), step, angles, {
        headDim: 8,
        sections: { lines: 1, columns: 1, alternate: false },
      });
    };
    expect(() => inPlane(3)).toThrow(/planePositions 2, got 1/);
    expect(() => inPlane(3, 4)).toThrow(/planePositions from 0 to 3, got 4 in row 1/);
    expect(() => beginStepInto(cpu, cache, ints(0, 48))).toThrow(/slots from -1 to 47, got 48 in row 1/);
    const step = beginStepInto(cpu, cache, ints(0));
    expect(() => cpu.storeKv(zeros(1, 8), zeros(1, 8), step, 2)).toThrow(/a layer from 0 to 1/);
    expect(() => cpu.storeKv(zeros(2, 8), zeros(2, 8), step, 0)).toThrow(/k \[1, 8\] f32, got \[2, 8\]/);
    expect(() => cpu.storeKv(zeros(1, 8), null, step, 0)).toThrow(/v beside k, got null/);
  });

  it('of beginStep and attention with rows, contexts or blocks that do not fit are refused', () => {
    const cache = cpu.makeKvCache(cacheShape);
    const call = (change: Partial<AttentionBatch>, rows = 1, cols = 8) => {
      const batch = {
        numSequences: 1,
        queryStarts: ints(0, 1),
        contextLengths: ints(20),
        blockTables: ints(0, 2),
        maxBlocks: 2,
      };
      const options = { layer: 0, scale: 1, window: null };
      return () => {
        const step = beginStep(cpu, cache, 1, { batch: { ...batch, ...change } });
        return cpu.attention(zeros(rows, cols), step, options);
      };
    };
    expect(call({})).not.toThrow();
    expect(call({ contextLengths: ints(33) })).toThrow(/contextLength <= 32, got 1 rows, contextLength 33/);
    expect(call({ contextLengths: ints(0) })).toThrow(ShapeError);
    expect(call({ blockTables: ints(0, 3) })).toThrow(/block ids below 3/);
    expect(call({ blockTables: ints(-1, 1) })).toThrow(ShapeError);
    expect(call({ blockTables: ints(0) })).toThrow(/blockTables of 2, got 1/);
    expect(call({ queryStarts: ints(0) })).toThrow(ShapeError);
    expect(call({ queryStarts: ints(0, 2) })).toThrow(/query rows 1, got 2/);
    expect(call({}, 2)).toThrow(ShapeError);
    expect(call({}, 1, 12)).toThrow(/a multiple of 8, got 12/);
    const both = { layer: 0, scale: 1, window: null, chunk: 8, isBidirectional: true };
    const step = beginStep(cpu, cache, 1);
    expect(() => cpu.attention(zeros(1, 8), step, both)).toThrow(/a chunk from 0 to 0/);
    expect(call({ bidirectional: ints(1) })).not.toThrow();
    expect(call({ bidirectional: ints(1, 0) })).toThrow(/bidirectional 1, got 2/);
  });

  it('with a step that another one has ended are refused', () => {
    const cache = cpu.makeKvCache(cacheShape);
    const ended = beginStep(cpu, cache, 1);
    beginStep(cpu, cache, 1);
    const options = { layer: 0, scale: 1, window: null };
    expect(() => cpu.attention(zeros(1, 8), ended, options)).toThrow(/the step that was begun last/);
    expect(() => cpu.storeKv(zeros(1, 8), zeros(1, 8), ended, 0)).toThrow(ShapeError);
  });

  it('with fewer columns than none are refused', () => {
    const backend = new (loadNative().CpuBackend)(isa, 1);
    expect(() => backend.scale(2, 0, 2, -4, -4)).toThrow(/a tensor inside the arena of/);
    expect(() => backend.read(false, 0, 2, -4, 0, new Float32Array(8))).toThrow(
      /a tensor inside the arena of/,
    );
    backend.close();
  });

  it('of beginStep with sends of memory that is not shared leave the step before as it was', () => {
    const cache = cpu.makeKvCache(cacheShape);
    const step = beginStep(cpu, cache, 1);
    const sends = ints(0, 0, 1, 0);
    expect(() => beginStep(cpu, cache, 1, { sends })).toThrow(
      /KV memory that is shared, got sends of one that is not/,
    );
    cpu.storeKv(zeros(1, 8), zeros(1, 8), step, 0);
    expect([...cpu.read(zeros(1, 8))]).toEqual(Array(8).fill(0));
  });

  it('of makeKvCache with more than can be addressed tell of memory', () => {
    const huge = {
      layers: 64,
      blocks: 2 ** 27,
      blockSize: 256,
      kvHeads: 32,
      headDim: 256,
      dtype: 'f32',
    } as const;
    expect(() => cpu.makeKvCache(huge)).toThrow(HostMemoryError);
  });

  it('of makeKvCache with odd sizes are refused', () => {
    expect(() => cpu.makeKvCache({ ...cacheShape, blockSize: 24 })).toThrow(/multiple of 16, got 24/);
    expect(() => cpu.makeKvCache({ ...cacheShape, headDim: 7 })).toThrow(/even headDim, got 7/);
  });

  it('after close throw instead of crashing', () => {
    const closed = openCpu(isa, 1);
    closed.close();
    closed.close();
    expect(() => closed.makeVector(new Float32Array(4))).toThrow(/closed/);
  });

  it('of load functions name the tensor, the file and what is missing', () => {
    const source = folder.write([8, 8], new Float32Array(64));
    const vector = folder.write([64], new Float32Array(64));
    const missing = { ...vector, path: join(folder.path, 'nowhere') };
    expect(() => cpu.loadVector(missing)).toThrow(ModelLoadError);
    expect(() => cpu.loadVector(missing)).toThrow(/weight-\d+.*nowhere: No such file/);
    truncateSync(source.path, 40);
    for (const load of [
      () => cpu.loadLinear([plainPart(source)], 'bf16'),
      () => cpu.loadGateUp(plainPart(source), plainPart(source), 'f32'),
    ]) {
      expect(load).toThrow(/is cut off: bytes 5 to 261 are wanted, the file has 40/);
    }
    writeFileSync(vector.path, '');
    expect(() => cpu.loadVector(vector)).toThrow(/the file has 0/);
    expect(() => cpu.loadVector(source)).toThrow(/weight-\d+ \[n\], got \[8, 8\]/);
    expect(() => cpu.loadVector({ ...vector, path: folder.path })).toThrow(/not a regular file/);
  });

  it('of load functions with shapes that do not fit are refused', () => {
    const pair = [weight(4, 8), weight(4, 9)];
    expect(() => cpu.loadLinear(pair, 'f32')).toThrow(/\[n, 8\], got \[4, 9\]/);
    const bias = folder.write([3], new Float32Array(3));
    expect(() => cpu.loadLinear([{ ...weight(4, 8), bias }], 'f32')).toThrow(/\[4\], got \[3\]/);
    expect(() => cpu.loadGateUp(weight(4, 8), weight(5, 8), 'f32')).toThrow(ShapeError);
    const short = { ...folder.write([4, 8], new Float32Array(32)), byteLength: 60 };
    expect(() => cpu.loadLinear([plainPart(short)], 'f32')).toThrow(/128 bytes for/);
  });

  it('with an instruction set or a number of threads that cannot be name what can', () => {
    const native = loadNative();
    expect(() => chooseThreads(native, 0)).toThrow(ConfigError);
    expect(() => chooseThreads(native, 2.5)).toThrow(/from 1 to 1024, got 2.5/);
    const fewer = { ...native, instructionSets: () => ['portable' as const] };
    expect(() => chooseIsa(fewer, 'avx2')).toThrow(
      /--cpu-isa avx2 is an instruction set that this processor lacks; it has portable/,
    );
  });
});
