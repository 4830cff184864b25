// Ranks meet in ops: sums, columns and tokens of all come to each, and nobody waits for one that will not come.

import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import { RanksBrokenError, ShapeError } from '../../src/errors.ts';
import { loadNative } from '../../src/native/native.ts';
import { openCpuDevice } from '../../src/ops/native/cpu-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { Ops } from '../../src/ops/ops.ts';
import type { RankGroup } from '../../src/ops/ranks.ts';
import { openRankGroup, selectOps } from '../../src/ops/select.ts';
import { sumAsTree } from '../../src/ops/sum-tree.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needsNative } from '../helpers/needs.ts';
import { ADDON } from '../helpers/transfer-process.ts';
import { Random } from './native-backends.ts';

const open: { close(): void }[] = [];
afterEach(() => {
  for (const thing of open.splice(0)) thing.close();
});

function openGroup(size: number, deadlineMs?: number): RankGroup {
  const group = openRankGroup(size, deadlineMs);
  open.push({ close: () => group.break('the test is over') });
  return group;
}

/** The streams of all ranks run at the same time, whatever thread calls their ops. */
function openRanks(group: RankGroup, count = group.seats.length, threads = 1): NativeOps[] {
  const options = { numThreads: threads * group.seats.length, cpuBind: null, cpuIsa: null };
  return group.seats.slice(0, count).map((seat) => {
    const ops = new NativeOps(openCpuDevice(loadNative(), options, seat));
    open.push(ops);
    return ops;
  });
}

const random = new Random(16);

describe('ranks', () => {
  for (const size of [2, 4, 8]) {
    for (const [rows, cols] of [
      [1, 1],
      [3, 40],
      [130, 257],
    ] as const) {
      it(`${size} have the sum of all, as a tree: ${rows} x ${cols}`, needsNative, () => {
        const parts = Array.from({ length: size }, () => random.floats(rows * cols));
        const expected = Float32Array.from(parts[0]!, (_, i) => sumAsTree(parts.map((part) => part[i]!)));
        const ranks = openRanks(openGroup(size), size, size === 2 ? 2 : 1);
        const sums = ranks.map((ops, rank) => ops.tensor(parts[rank]!, rows, cols, 'f32'));
        for (const [rank, ops] of ranks.entries()) ops.sumRanks(sums[rank]!);
        for (const [rank, ops] of ranks.entries()) expect(ops.read(sums[rank]!)).toEqual(expected);
      });
    }

    it(`${size} have the columns of all, side by side`, needsNative, () => {
      const widths = Array.from({ length: size }, (_, rank) => 5 + rank);
      const ranks = openRanks(openGroup(size));
      for (const dtype of ['f32', 'bf16'] as const) {
        const own = ranks.map((ops, rank) =>
          ops.tensor(
            Float32Array.from({ length: 3 * widths[rank]! }, (_, i) => (rank * 31 + i) % 250),
            3,
            widths[rank]!,
            dtype,
          ),
        );
        const all = ranks.map((ops, rank) => ops.gatherColumns(own[rank]!, widths));
        const expected = [0, 1, 2].flatMap((row) =>
          widths.flatMap((width, rank) =>
            Array.from({ length: width }, (_, i) => (rank * 31 + row * width + i) % 250),
          ),
        );
        for (const [rank, ops] of ranks.entries()) expect([...ops.read(all[rank]!)]).toEqual(expected);
      }
    });
  }

  it('share columns in place', needsNative, () => {
    const ranks = openRanks(openGroup(2));
    const all = ranks.map((ops, rank) => ops.tensor(new Float32Array(6).fill(rank + 1), 2, 3, 'f32'));
    for (const [rank, ops] of ranks.entries()) ops.shareColumns(all[rank]!, [1, 2]);
    for (const [rank, ops] of ranks.entries()) expect([...ops.read(all[rank]!)]).toEqual([1, 2, 2, 1, 2, 2]);
  });

  it('go on with the tokens that rank 0 samples', needsNative, () => {
    const ranks = openRanks(openGroup(2));
    const logits = ranks[0]!.tensor(Float32Array.of(0, 1, 0, 9, 1, 2), 2, 3, 'f32');
    const sampled = ranks[0]!.sample(logits, {
      temperature: new Float32Array(2),
      topK: new Int32Array(2),
      topP: new Float32Array(2).fill(1),
      minP: new Float32Array(2),
      uniform: new Float64Array(2),
    });
    const shared = ranks.map((ops, rank) => ops.shareSampled(rank === 0 ? sampled : null, 2));
    for (const tokens of shared) expect([...tokens.read()]).toEqual([1, 0]);
  });

  it('compute on memory that comes again, op after op', needsNative, () => {
    const ranks = openRanks(openGroup(4));
    const results = ranks.map(() => [] as (() => number)[]);
    for (let round = 0; round < 300; round++) {
      for (const [rank, ops] of ranks.entries()) {
        ops.scope(() => {
          const x = ops.tensor(Float32Array.of(round + rank), 1, 1, 'f32');
          ops.sumRanks(x);
          const sum = ops.readLater(ops.gatherColumns(x, [1, 1, 1, 1]));
          results[rank]!.push(() => sum.read().reduce((a, b) => a + b));
        });
      }
    }
    for (const reads of results)
      expect(reads.map((read) => read())).toEqual(reads.map((_, round) => 4 * (4 * round + 6)));
  });
});

describe('a rank that will not come', () => {
  const waiting = (ops: Ops) => {
    const x = ops.tensor(Float32Array.of(1), 1, 1, 'f32');
    ops.sumRanks(x);
    return ops.mark();
  };

  it('is named once the deadline is over', needsNative, () => {
    const [first, , third] = openRanks(openGroup(4, 1000), 3);
    const mark = waiting(first!);
    waiting(third!);
    expect(() => mark.read()).toThrow(RanksBrokenError);
    expect(() => mark.read()).toThrow('ranks cannot go on: rank 1, 3 did not come within 1000 ms');
  });

  it('is named when its backend closes', needsNative, () => {
    const [first, second] = openRanks(openGroup(2));
    const mark = waiting(first!);
    second!.close();
    expect(() => mark.read()).toThrow('ranks cannot go on: rank 1 has ended');
  });

  it('is named when its thread is ended, though it was waiting itself', needsNative, async () => {
    const group = openGroup(4);
    const [first] = openRanks(group, 1);
    const mark = waiting(first!);
    const source = `
      const { parentPort, workerData } = require('node:worker_threads');
      const { CpuBackend } = require(workerData.addon);
      const backend = new CpuBackend('portable', 1, undefined, workerData.group, 2);
      backend.growArena(4096);
      backend.sumRanks(0, 1, 1, 16);
      parentPort.postMessage('waits');
      setInterval(() => {}, 1000);`;
    const worker = new Worker(source, {
      eval: true,
      workerData: { addon: ADDON, group: group.seats[2]!.group },
    });
    await new Promise((resolve) => worker.once('message', resolve));
    await worker.terminate();
    expect(() => mark.read()).toThrow('ranks cannot go on: rank 2 has ended');
  });

  it('may be called off', needsNative, () => {
    const group = openGroup(2);
    const [first] = openRanks(group, 1);
    const mark = waiting(first!);
    group.break('its thread could not be started');
    expect(() => mark.read()).toThrow('ranks cannot go on: its thread could not be started');
    expect(() => openRanks(group)).toThrow('there is no such rank group, or it is broken');
  });

  it('takes nothing from what all have finished', needsNative, () => {
    for (let round = 0; round < 30; round++) {
      const [first, second] = openRanks(openGroup(2));
      const marks = [first!, second!].map(waiting);
      marks[0]!.read();
      first!.close();
      marks[1]!.read();
      second!.close();
    }
  });

  it('does not hold a backend that closes', needsNative, () => {
    const [first] = openRanks(openGroup(2));
    waiting(first!);
    first!.close();
  });
});

describe('ranks that fall apart', () => {
  it('say where each is', needsNative, () => {
    const [first, second] = openRanks(openGroup(2));
    const x = [first!, second!].map((ops) => ops.tensor(new Float32Array(2), 1, 2, 'f32'));
    first!.sumRanks(x[0]!);
    second!.gatherColumns(x[1]!, [3, 2]);
    const why =
      /rank [01] is at (sumRanks of 1 x 2, rank 1 is at gatherColumns of 1 x 5|gatherColumns of 1 x 5, rank 0 is at sumRanks of 1 x 2)/;
    expect(() => first!.mark().read()).toThrow(why);
    expect(() => second!.mark().read()).toThrow(why);
  });

  it('are told what they give wrong before anyone waits', needsNative, () => {
    const group = openGroup(2);
    const [first, second] = openRanks(group);
    const x = first!.tensor(new Float32Array(2), 1, 2, 'f32');
    expect(() => first!.gatherColumns(x, [2])).toThrow(ShapeError);
    expect(() => first!.gatherColumns(x, [1, 1])).toThrow(ShapeError);
    expect(() => second!.shareColumns(x, [1, 1])).toThrow(ShapeError);
    expect(() => first!.shareSampled(null, 1)).toThrow(ShapeError);
    expect(() => openRanks(group, 1)).toThrow('rank 0 has joined its group already');
  });

  it('are 2, 4 or 8 on the processor', needsNative, () => {
    expect(() => openRankGroup(3)).toThrow('2, 4 or 8 ranks');
    expect(() => openRankGroup(16)).toThrow('from 2 to 8');
    const [seat] = openGroup(2).seats;
    for (const device of ['reference', 'cuda'] as const) {
      const options = { ...ENGINE_DEFAULTS, device };
      expect(() => selectOps(options, seat)).toThrow(
        `several ranks are not available with --device ${device}`,
      );
    }
  });
});

describe('a backend that is alone', () => {
  it('has what all have', needsNative, () => {
    const { ops } = selectOps({ ...ENGINE_DEFAULTS, device: 'cpu', numThreads: 1 });
    open.push(ops);
    expect(ops.ranks).toEqual({ rank: 0, size: 1 });
    const x = ops.tensor(Float32Array.of(1, 2), 1, 2, 'f32');
    ops.sumRanks(x);
    ops.shareColumns(x, [2]);
    expect(ops.gatherColumns(x, [2])).toBe(x);
    expect([...ops.read(x)]).toEqual([1, 2]);
  });
});
