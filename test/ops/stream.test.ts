// Ops run behind one another on a thread of their own, and what they give each other needs no reading.

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ShapeError } from '../../src/errors.ts';
import type { NativeOps } from '../../src/ops/native/native-ops.ts';
import { NativeSampledTokens } from '../../src/ops/native/native-pending.ts';
import type { Ops, SampledTokens, SamplingRows, Tensor } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type LinearWeight, plainPart, type TensorSource } from '../../src/ops/weights.ts';
import { needs } from '../helpers/needs.ts';
import { ADDON } from '../helpers/transfer-process.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, openCpu, Random } from './native-backends.ts';
import { beginStep } from './steps.ts';

const HIDDEN = 64;
const VOCAB = 40;
const folder = new WeightFolder();
afterAll(() => folder.remove());

const random = new Random(1);
const embeddings = folder.write([VOCAB, HIDDEN], random.floats(VOCAB * HIDDEN));
const logitValues = random.floats(3 * VOCAB);

/** The address sanitizer takes more of them than any limit leaves. */
const needsAddresses = needs(process.env.ASAN_OPTIONS === undefined, 'sanitizers need unlimited addresses');

const squareOfZeros = folder.write([2048, 2048], new Float32Array(2048 * 2048));

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

function greedy(rows: number): SamplingRows {
  return {
    temperature: new Float32Array(rows),
    topK: new Int32Array(rows),
    topP: new Float32Array(rows).fill(1),
    minP: new Float32Array(rows),
    uniform: new Float64Array(rows),
  };
}

function loadTable(ops: Ops, weight: TensorSource): LinearWeight {
  return ops.loadLinear([plainPart(weight)], 'f32');
}

function sampleGreedily(ops: Ops): { readonly logits: Tensor; readonly sampled: SampledTokens } {
  const logits = ops.tensor(logitValues, 3, VOCAB, 'f32');
  return { logits, sampled: ops.sample(logits, greedy(3)) };
}

/** What every backend does alike. */
function describeTokens(open: () => Ops): void {
  let ops: Ops;
  beforeEach(() => {
    ops = open();
  });
  afterEach(() => ops.close());

  it('looks up sampled tokens that nobody has read, between known ones', () => {
    const table = loadTable(ops, embeddings);
    ops.scope(() => {
      const { sampled } = sampleGreedily(ops);
      const rows = ops.embedding({ ids: Int32Array.of(-3, 7, -1), sampled }, table);
      const tokens = sampled.read();
      const known = { ids: Int32Array.of(tokens[2]!, 7, tokens[0]!), sampled: null };
      expect(ops.read(rows)).toEqual(ops.read(ops.embedding(known, table)));
    });
  });

  it('gives the log-probabilities of sampled tokens that nobody has read', () => {
    ops.scope(() => {
      const { logits, sampled } = sampleGreedily(ops);
      const rows = Int32Array.of(0, 1, 2);
      const ids = Int32Array.of(-1, -2, -3);
      const unread = ops.logprobs(logits, rows, { ids, sampled }, 2).read();
      const known = { ids: sampled.read(), sampled: null };
      expect(unread).toEqual(ops.logprobs(logits, rows, known, 2).read());
      expect(Array.from(unread.ranks)).toEqual([1, 1, 1]);
    });
  });

  it('refuses ids that stand for no sampled token', () => {
    const table = loadTable(ops, embeddings);
    ops.scope(() => {
      const { logits, sampled } = sampleGreedily(ops);
      const beyond = { ids: Int32Array.of(-4), sampled };
      expect(() => ops.embedding(beyond, table)).toThrow(ShapeError);
      expect(() => ops.logprobs(logits, Int32Array.of(0), beyond, 0)).toThrow(ShapeError);
    });
  });
}

describe('tokens on the reference backend', () => describeTokens(() => new ReferenceOps()));

describeEachIsa('tokens', (isa) => describeTokens(() => openCpu(isa)));

describeEachIsa('the stream of ops', (isa) => {
  let cpu: NativeOps;
  beforeEach(() => {
    cpu = openCpu(isa);
  });
  afterEach(() => cpu.close());

  /** An op that takes far longer than a call. */
  function callLongOp(): void {
    const weight = cpu.loadLinear([plainPart(squareOfZeros)], 'f32');
    cpu.linear(cpu.tensor(new Float32Array(512 * 2048), 512, 2048, 'f32'), weight);
  }

  it('goes on while JavaScript does', () => {
    cpu.scope(() => {
      const before = cpu.busySeconds;
      let waited = 0;
      // On a busy machine this thread may be the one that goes on late, but not every time.
      for (let times = 0; times < 5 && waited < 0.001; times += 1) {
        callLongOp();
        const calledAt = performance.now();
        cpu.mark().read();
        waited = (performance.now() - calledAt) / 1000;
      }
      expect(cpu.busySeconds - before).toBeGreaterThan(0.002);
      expect(waited).toBeGreaterThan(0.001);
    });
  });

  it('keeps what it is given: an array may change as soon as the call returns', () => {
    cpu.scope(() => {
      const x = cpu.tensor(Float32Array.of(1, 2, 3), 3, 1, 'f32');
      callLongOp();
      const rows = Int32Array.of(2, 0);
      const gathered = cpu.gatherRows(x, rows);
      rows.fill(1);
      expect([...cpu.read(gathered)]).toEqual([3, 1]);
    });
  });

  it('gives ops the step that they were called with, although its arrays change and the next step begins', () => {
    const shape = { layers: 1, blocks: 2, blockSize: 16, kvHeads: 1, headDim: 2, dtype: 'f32' } as const;
    const cache = cpu.makeKvCache(shape);
    const table = cpu.makeVector(Float32Array.of(1, 0, 0, 1));
    const arrays = (position: number, block: number) => ({
      positions: Int32Array.of(position),
      slotMapping: Int32Array.of(16 * block),
      batch: {
        numSequences: 1,
        queryStarts: Int32Array.of(0, 1),
        contextLengths: Int32Array.of(1),
        blockTables: Int32Array.of(block),
        maxBlocks: 1,
      },
    });
    cpu.scope(() => {
      callLongOp();
      const outputs = [0, 1].map((i) => {
        const given = arrays(i, i);
        const step = cpu.beginStep(cache, given);
        const x = cpu.gatherRows(cpu.tensor(Float32Array.of(3 + i, 4 + i), 1, 2, 'f32'), Int32Array.of(0));
        callLongOp();
        cpu.rope(x, step, table, { headDim: 2 });
        cpu.storeKv(x, x, step, 0);
        const out = cpu.attention(x, step, { layer: 0, scale: 1, window: null });
        for (const array of [given.positions, given.slotMapping, ...Object.values(given.batch)])
          if (typeof array !== 'number') array.fill(1);
        return { x, out };
      });
      const [first, second] = outputs.map(({ x, out }) => [[...cpu.read(x)], [...cpu.read(out)]]);
      expect(first).toEqual([
        [3, 4],
        [3, 4],
      ]);
      expect(second).toEqual([
        [-5, 4],
        [-5, 4],
      ]);
    });
  });

  it('takes more ops than may wait', () => {
    cpu.scope(() => {
      callLongOp();
      const x = cpu.tensor(Float32Array.of(5), 1, 1, 'f32');
      let last = x;
      for (let i = 0; i < 10_000; i += 1) last = cpu.gatherRows(last, Int32Array.of(0));
      expect([...cpu.read(last)]).toEqual([5]);
    });
  });

  it('keeps the arrays that ops fill until they have run, and no longer', async () => {
    const dropped = cpu.scope(() => {
      const logits = cpu.tensor(logitValues, 3, VOCAB, 'f32');
      callLongOp();
      const sampled = cpu.sample(logits, greedy(3));
      if (!(sampled instanceof NativeSampledTokens)) throw new Error('tokens of another backend');
      return new WeakRef(sampled.unread);
    });
    await nextTurn();
    collectGarbage();
    expect(dropped.deref()).toBeDefined();
    await nextTurn();
    cpu.mark().read();
    // The next op lets go of what those before it needed.
    cpu.scope(() => cpu.embedding({ ids: Int32Array.of(0), sampled: null }, loadTable(cpu, embeddings)));
    collectGarbage();
    expect(dropped.deref()).toBeUndefined();
  });

  it('drops what has not run when it is closed', () => {
    const other = openCpu(isa);
    other.scope(() => other.tensor(Float32Array.of(1), 1, 1, 'f32'));
    const pending = other.mark();
    other.close();
    expect(() => pending.read()).toThrow(/closed/);
  });

  it('lets a thread end that waits for long work', async () => {
    // Each op copies 64 MB: many seconds of them.
    const worker = new Worker(
      `const { parentPort, workerData } = require('node:worker_threads');
       const { CpuBackend } = require(workerData.addon);
       const backend = new CpuBackend(workerData.isa, 1);
       const [rows, cols] = [4096, 4096];
       const bytes = rows * cols * 4;
       backend.growArena(2 * bytes);
       const ids = new Int32Array(rows);
       for (let i = 0; i < 3000; i++) {
         backend.gatherRows(false, ids, 0, rows, cols, cols, bytes, rows, cols, cols);
       }
       parentPort.postMessage('waiting');
       while (!backend.await(backend.lastPosition(), 100));
       parentPort.postMessage('done');`,
      { eval: true, workerData: { addon: ADDON, isa } },
    );
    const messages: unknown[] = [];
    worker.on('message', (message) => messages.push(message));
    await once(worker, 'message');
    const startedAt = performance.now();
    await worker.terminate();
    expect(performance.now() - startedAt).toBeLessThan(5000);
    expect(messages).toEqual(['waiting']);
  });

  it('is no end of the process where the system gives fewer threads than are wanted', needsAddresses, () => {
    // A thread takes 8 MB of addresses.
    const limits = 'ulimit -s 8192 && ulimit -v 8000000';
    const program = `
      const { CpuBackend } = require(process.argv[1]);
      try { new CpuBackend(process.argv[2], 1024); } catch ({ message }) { console.log(message); }
      new CpuBackend(process.argv[2], 2).close();`;
    const argv = [process.execPath, '-e', program, ADDON, isa];
    const child = spawnSync('bash', ['-c', `${limits} && exec "$0" "$@"`, ...argv], { encoding: 'utf8' });
    expect(child).toMatchObject({ status: 0, stderr: '' });
    expect(child.stdout).toMatch(
      /^the system gives this process no more threads \(.+\): lower --num-threads, or /,
    );
  });

  it('looks up no token that was sampled from a larger vocabulary than that of the table', () => {
    const small = loadTable(cpu, folder.write([1, HIDDEN], random.floats(HIDDEN)));
    cpu.scope(() => {
      const logits = cpu.tensor(Float32Array.of(0, 1), 1, 2, 'f32');
      cpu.embedding({ ids: Int32Array.of(-1), sampled: cpu.sample(logits, greedy(1)) }, small);
      expect(() => cpu.mark().read()).toThrow(/tokens below 1, sampled 1/);
    });
  });

  it('throws what made an op fail wherever something is read behind it', () => {
    const shape = { layers: 1, blocks: 2, blockSize: 16, kvHeads: 1, headDim: 8, dtype: 'f32' } as const;
    const cache = cpu.makeKvCache(shape, true);
    cpu.shareKvMemory(cache);
    beginStep(cpu, cache, 1, { sends: Int32Array.of(1, 0) });
    for (let i = 0; i < 2; i += 1) expect(() => cpu.mark().read()).toThrow(/the blocks of a step/);
  });
});
