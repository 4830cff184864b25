// Packed weights that come from a file: the same numbers as packed ones, or none at all.

import { pbkdf2 } from 'node:crypto';
import { copyFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CpuIsa } from '../../src/config/cpu-isa.ts';
import type { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import type { PackedWeights } from '../../src/ops/packed-weights.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type LinearPart, plainPart } from '../../src/ops/weights.ts';
import { needsNative } from '../helpers/needs.ts';
import { randomBlocks } from '../helpers/random-blocks.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, formats, isas, openCpu, Random } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const K = 70;
const random = new Random(5);
const tensor = (...shape: number[]) =>
  folder.write(shape, random.floats(shape.reduce((product, size) => product * size)));
/** More than one piece of the file, and one that is not full. */
const LARGE = plainPart(tensor(2000, K));
const BIASED = plainPart(tensor(33, K), tensor(33));
const [GATE, UP] = [plainPart(tensor(40, K), tensor(40)), plainPart(tensor(40, K))];
const INPUT = random.floats(3 * K, 'bf16');
/** Codes whose scales, and minimums, are bytes. */
const BLOCKS: LinearPart = {
  weight: {
    kind: 'blocks',
    format: 'q4_k',
    tensor: folder.writeBytes(
      [33, 256],
      randomBlocks('q4_k', 33 * 256, () => random.next()),
      'q4_k',
    ),
  },
  bias: null,
};
const BLOCKS_INPUT = random.floats(3 * 256, 'bf16');

const KEY = 'a key';

const THREADS_OF_NODE = Number(process.env.UV_THREADPOOL_SIZE ?? 4);
const derive = promisify(pbkdf2);

/** What products with the weights give; the weights are loaded in every format, in one order. */
function outputs(ops: Ops): Float32Array[] {
  const ofFormats = formats.flatMap((format) => {
    const weights = [ops.loadLinear([LARGE, BIASED], format), ops.loadLinear([BIASED], format)];
    const gateUp = ops.loadGateUp(GATE, UP, format);
    return ops.scope(() => {
      const input = (): Tensor => ops.tensor(INPUT, 3, K, gateUp.inputDType);
      return [
        ...weights.map((weight) => ops.read(ops.linear(input(), weight))),
        ops.read(ops.gateUp(input(), gateUp, 'silu')),
        ops.read(ops.embedding({ ids: Int32Array.of(0, 1999), sampled: null }, weights[0]!)),
      ];
    });
  });
  const ofBlocks = ops.scope(() => {
    const weight = ops.loadLinear([BLOCKS], 'q4_k');
    return ops.read(ops.linear(ops.tensor(BLOCKS_INPUT, 3, 256, 'bf16'), weight));
  });
  return [...ofFormats, ofBlocks];
}

function packedOf(ops: Ops): PackedWeights {
  if (ops.packedWeights === null) throw new Error('the native backend packs weights');
  return ops.packedWeights;
}

/** The same of a whole load, which can be saved then. */
function loadAll(ops: Ops): Float32Array[] {
  const numbers = outputs(ops);
  packedOf(ops).close();
  return numbers;
}

/** Loads from `path` what it can; the outputs, and why not all came from there. */
function loadFrom(isa: CpuIsa, path: string, key = KEY) {
  const ops = openCpu(isa);
  const packed = packedOf(ops);
  try {
    let defect: string | null = null;
    try {
      packed.open(path, key);
    } catch (error) {
      defect = String(error);
    }
    const numbers = outputs(ops);
    return { numbers, defect: packed.close() ?? defect };
  } finally {
    ops.close();
  }
}

describeEachIsa('packed weights', (isa) => {
  it('give the same bits out of a file, in every format', async () => {
    const path = join(folder.path, `entry-of-${isa}`);
    const ops = openCpu(isa);
    const expected = loadAll(ops);
    expect(await packedOf(ops).save(path, KEY)).toBe(true);
    ops.close();
    expect(loadFrom(isa, path)).toEqual({ numbers: expected, defect: null });
  });
});

describe('packed weights of a file', needsNative, () => {
  const isa = isas[0]!;
  const path = join(folder.path, 'entry');
  const damaged = join(folder.path, 'damaged');
  let ops: NativeOps;
  let expected: Float32Array[];
  beforeAll(async () => {
    ops = openCpu(isa);
    expected = loadAll(ops);
    await packedOf(ops).save(path, KEY);
  });
  afterAll(() => ops.close());

  it('give no other bits however the file is cut off', () => {
    const { length } = readFileSync(path);
    const cut = fc.oneof(fc.integer({ min: 0, max: length - 1 }), fc.integer({ min: 0, max: 8192 }));
    fc.assert(
      fc.property(cut, (bytes) => {
        copyFileSync(path, damaged);
        truncateSync(damaged, bytes);
        const { numbers, defect } = loadFrom(isa, damaged);
        expect(defect).toContain(damaged);
        expect(numbers).toEqual(expected);
      }),
      { numRuns: 12 },
    );
  });

  it('give no other bits whichever bytes of the file are changed', () => {
    const bytes = readFileSync(path);
    // The tables at the front are small and are read first: half of the changes are there.
    const place = fc.oneof(fc.integer({ min: 0, max: bytes.length - 1 }), fc.integer({ min: 0, max: 4095 }));
    fc.assert(
      fc.property(place, fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ change;
        writeFileSync(damaged, changed);
        const { numbers, defect } = loadFrom(isa, damaged);
        expect(numbers).toEqual(expected);
        // Zeros between the parts mean nothing.
        if (bytes[at] !== 0) expect(defect).toContain(damaged);
      }),
      { numRuns: 25 },
    );
  });

  it('are refused under another key', () => {
    const { numbers, defect } = loadFrom(isa, path, 'another key');
    expect(defect).toContain(`${path}: it is of another model, format or build of svc`);
    expect(numbers).toEqual(expected);
  });

  it('are packed from the first weight on that the file has in another place', () => {
    const other = openCpu(isa);
    packedOf(other).open(path, KEY);
    const weight = other.loadLinear([BIASED], 'f32');
    expect(packedOf(other).close()).toContain('in its place');
    const product = other.scope(() => other.read(other.linear(other.tensor(INPUT, 3, K, 'f32'), weight)));
    expect(product).toEqual(expected[1]);
    other.close();
  });

  it('are in a whole file after several have written it at once', async () => {
    const shared = join(folder.path, 'shared');
    const writers = Array.from({ length: 4 }, () => openCpu(isa));
    for (const writer of writers) loadAll(writer);
    const written = await Promise.all(writers.map((writer) => packedOf(writer).save(shared, KEY)));
    expect(written).toContain(true);
    expect(existsSync(`${shared}.tmp`)).toBe(false);
    expect(loadFrom(isa, shared)).toEqual({ numbers: expected, defect: null });
    for (const writer of writers) writer.close();
  });

  it('are in a whole file where the backend is closed before a thread was free to write it', async () => {
    const early = join(folder.path, 'early');
    const closed = openCpu(isa);
    loadAll(closed);
    const others = Array.from({ length: THREADS_OF_NODE }, () => derive('', '', 100_000, 64, 'sha512'));
    const saving = packedOf(closed).save(early, KEY);
    closed.close();
    expect(await saving).toBe(true);
    expect(loadFrom(isa, early)).toEqual({ numbers: expected, defect: null });
    await Promise.all(others);
  });

  it('take the place of what a process that died has left unfinished', async () => {
    const left = join(folder.path, 'left');
    writeFileSync(`${left}.tmp`, 'half of it');
    expect(await packedOf(ops).save(left, KEY)).toBe(true);
    expect(loadFrom(isa, left)).toEqual({ numbers: expected, defect: null });
  });

  it('leave nothing where they cannot be written', async () => {
    const nowhere = join(folder.path, 'nowhere', 'entry');
    await expect(packedOf(ops).save(nowhere, KEY)).rejects.toThrow(`cannot write ${nowhere}`);
  });
});

describe('the reference backend', () => {
  it('has no packed weights', () => {
    expect(new ReferenceOps().packedWeights).toBeNull();
  });
});
