// What ranks do together, wherever they compute: sums, columns and tokens of all come to each, and nobody waits for one that will not come.

import { Worker } from 'node:worker_threads';
import { afterAll, afterEach, describe, expect, it, type TestOptions } from 'vitest';
import { RanksBrokenError, ShapeError } from '../../src/errors.ts';
import type { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import type { RankGroup, RankSeat } from '../../src/ops/ranks.ts';
import { openRankGroup } from '../../src/ops/select.ts';
import { sumAsTree } from '../../src/ops/sum-tree.ts';
import { narrow, plainPart } from '../../src/ops/weights.ts';
import { ADDON } from '../helpers/transfer-process.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { Random } from './native-backends.ts';

/** Where ranks compute. */
export interface RankDevice {
  readonly needs: TestOptions;
  /** Whether an op that one rank has finished has all that the others need: a GPU may have its part before another one. */
  readonly isTogether: boolean;
  openAlone(): NativeOps;
  /** The backend of a rank; a processor computes with so many threads. */
  openRank(seat: RankSeat, threads: number): NativeOps;
  /** The same, in a thread that knows `addon` and `group`. */
  opening(rank: number): string;
}

/** Closed when a test ends. */
export const open: { close(): void }[] = [];

export function openGroup(size: number, deadlineMs?: number): RankGroup {
  const group = openRankGroup(size, deadlineMs);
  open.push({ close: () => group.break('the test is over') });
  return group;
}

export function describeRanks({ needs, isTogether, openAlone, openRank, opening }: RankDevice): void {
  const random = new Random(16);
  const folder = new WeightFolder();
  afterAll(() => folder.remove());
  afterEach(() => {
    for (const thing of open.splice(0)) thing.close();
  });

  /** The streams of all ranks run at the same time, whatever thread calls their ops. */
  function openRanks(group: RankGroup, count = group.seats.length, threads = 1): NativeOps[] {
    return group.seats.slice(0, count).map((seat) => {
      const ops = openRank(seat, threads);
      open.push(ops);
      return ops;
    });
  }

  describe('ranks', needs, () => {
    for (const size of [2, 4, 8]) {
      for (const [rows, cols] of [
        [1, 1],
        [3, 40],
        [130, 257],
      ] as const) {
        it(`${size} have the sum of all, as a tree: ${rows} x ${cols}`, () => {
          const parts = Array.from({ length: size }, () => random.floats(rows * cols));
          const expected = Float32Array.from(parts[0]!, (_, i) => sumAsTree(parts.map((part) => part[i]!)));
          const ranks = openRanks(openGroup(size), size, size === 2 ? 2 : 1);
          const sums = ranks.map((ops, rank) => ops.tensor(parts[rank]!, rows, cols, 'f32'));
          for (const [rank, ops] of ranks.entries()) ops.sumRanks(sums[rank]!);
          for (const [rank, ops] of ranks.entries()) expect(ops.read(sums[rank]!)).toEqual(expected);
        });
      }

      it(`${size} have the columns of all, side by side`, () => {
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

    it('make the columns of a product that one makes, wherever they are', () => {
      const [rows, n, k] = [70, 44, 331];
      const source = folder.write([n, k], random.floats(n * k));
      const x = random.floats(rows * k, 'bf16');
      for (const splitsK of [false, true]) {
        const product = (ops: Ops, first: number, width: number): Tensor => {
          const own = plainPart(narrow(source, 0, first, width));
          return ops.linear(ops.tensor(x, rows, k, 'bf16'), ops.loadLinear([own], 'bf16', splitsK));
        };
        const alone = openAlone();
        open.push(alone);
        const expected = alone.read(product(alone, 0, n));
        for (const size of [2, 4]) {
          const ranks = openRanks(openGroup(size));
          const all = ranks.map((ops, rank) =>
            ops.gatherColumns(
              product(ops, (rank * n) / size, n / size),
              new Array<number>(size).fill(n / size),
            ),
          );
          for (const [rank, ops] of ranks.entries()) expect(ops.read(all[rank]!)).toEqual(expected);
        }
      }
    });

    it('share columns in place', () => {
      const ranks = openRanks(openGroup(2));
      const all = ranks.map((ops, rank) => ops.tensor(new Float32Array(6).fill(rank + 1), 2, 3, 'f32'));
      for (const [rank, ops] of ranks.entries()) ops.shareColumns(all[rank]!, [1, 2]);
      for (const [rank, ops] of ranks.entries())
        expect([...ops.read(all[rank]!)]).toEqual([1, 2, 2, 1, 2, 2]);
    });

    it('go on with the tokens that rank 0 samples', () => {
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

    it('compute on memory that comes again, op after op', () => {
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

  describe('a rank that will not come', needs, () => {
    const waiting = (ops: Ops) => {
      const x = ops.tensor(Float32Array.of(1), 1, 1, 'f32');
      ops.sumRanks(x);
      return ops.mark();
    };

    it('is named once the deadline is over', () => {
      const [first, , third] = openRanks(openGroup(4, 1000));
      const mark = waiting(first!);
      waiting(third!);
      expect(() => mark.read()).toThrow(RanksBrokenError);
      expect(() => mark.read()).toThrow('ranks cannot go on: rank 1, 3 did not come within 1000 ms');
    });

    it('is named when its backend closes', () => {
      const [first, second] = openRanks(openGroup(2));
      const mark = waiting(first!);
      second!.close();
      expect(() => mark.read()).toThrow('ranks cannot go on: rank 1 has ended');
    });

    it('is named when its thread is ended, though it was waiting itself', async () => {
      const group = openGroup(4);
      const others = group.seats.filter(({ rank }) => rank !== 2);
      const [first] = openRanks({ ...group, seats: others });
      const source = `
        const { parentPort, workerData } = require('node:worker_threads');
        const { group } = workerData;
        const addon = require(workerData.addon);
        const backend = ${opening(2)};
        backend.growArena(4096);
        backend.sumRanks(0, 1, 1, 16);
        parentPort.postMessage('waits');
        setInterval(() => {}, 1000);`;
      const worker = new Worker(source, {
        eval: true,
        workerData: { addon: ADDON, group: group.seats[2]!.group },
      });
      await new Promise((resolve) => worker.once('message', resolve));
      const mark = waiting(first!);
      await worker.terminate();
      expect(() => mark.read()).toThrow('ranks cannot go on: rank 2 has ended');
    });

    it('may be called off', () => {
      const group = openGroup(2);
      const [first] = openRanks(group);
      const mark = waiting(first!);
      group.break('its thread could not be started');
      expect(() => mark.read()).toThrow('ranks cannot go on: its thread could not be started');
      expect(() => openRanks(group)).toThrow('there is no such rank group, or it is broken');
    });

    it.skipIf(!isTogether)('takes nothing from what all have finished', () => {
      for (let round = 0; round < 30; round++) {
        const [first, second] = openRanks(openGroup(2));
        const marks = [first!, second!].map(waiting);
        marks[0]!.read();
        first!.close();
        marks[1]!.read();
        second!.close();
      }
    });

    it('does not hold a backend that closes', () => {
      const [first] = openRanks(openGroup(2));
      waiting(first!);
      first!.close();
    });
  });

  describe('ranks that fall apart', needs, () => {
    it('say where each is', () => {
      const [first, second] = openRanks(openGroup(2));
      const x = [first!, second!].map((ops) => ops.tensor(new Float32Array(2), 1, 2, 'f32'));
      first!.sumRanks(x[0]!);
      const goOn = () => {
        second!.gatherColumns(x[1]!, [3, 2]);
        second!.mark().read();
      };
      const why =
        /rank [01] is at (sumRanks of 1 x 2, rank 1 is at gatherColumns of 1 x 5|gatherColumns of 1 x 5, rank 0 is at sumRanks of 1 x 2)/;
      // On a GPU the call itself finds it.
      expect(goOn).toThrow(why);
      expect(() => first!.mark().read()).toThrow(why);
    });

    it('are told what they give wrong before anyone waits', () => {
      const group = openGroup(2);
      const [first, second] = openRanks(group);
      const x = first!.tensor(new Float32Array(2), 1, 2, 'f32');
      expect(() => first!.gatherColumns(x, [2])).toThrow(ShapeError);
      expect(() => first!.gatherColumns(x, [1, 1])).toThrow(ShapeError);
      expect(() => second!.shareColumns(x, [1, 1])).toThrow(ShapeError);
      expect(() => first!.shareSampled(null, 1)).toThrow(ShapeError);
      expect(() => openRanks(group, 1)).toThrow('rank 0 has joined its group already');
    });
  });
}
