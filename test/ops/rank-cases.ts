// What ranks do together, wherever they compute: sums, columns and tokens of all come to each, and nobody waits for one that will not come.

import { afterAll, afterEach, beforeAll, describe, expect, it, type TestOptions } from 'vitest';
import { ShapeError } from '../../src/errors.ts';
import type { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { RankGroup, RankSeat } from '../../src/ops/ranks.ts';
import { openRankGroup } from '../../src/ops/select.ts';
import { sumAsTree } from '../../src/ops/sum-tree.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { Random } from './native-backends.ts';
import { RankCrew } from './rank-crew.ts';
import { columnValue, PROGRAMS } from './rank-programs.ts';

/** Where ranks compute. */
export interface RankDevice {
  readonly needs: TestOptions;
  readonly device: 'cpu' | 'cuda';
  openAlone(): NativeOps;
  openRank(seat: RankSeat): NativeOps;
}

/** Closed when a test ends. */
export const open: { close(): void }[] = [];

export function openGroup(size: number, deadlineMs?: number): RankGroup {
  const group = openRankGroup(size, deadlineMs);
  open.push({ close: () => group.break('the test is over') });
  return group;
}

/** The threads of a file's ranks. */
export function crewOf(device: 'cpu' | 'cuda'): RankCrew {
  const crew = new RankCrew(device);
  afterEach(() => {
    for (const thing of open.splice(0)) thing.close();
    return crew.release();
  });
  afterAll(() => crew.close());
  return crew;
}

export function describeRanks({ needs, device, openAlone, openRank }: RankDevice): void {
  const random = new Random(16);
  let folder: WeightFolder;
  beforeAll(() => {
    folder = new WeightFolder();
  });
  afterAll(() => folder.remove());
  const crew = crewOf(device);

  describe('ranks', needs, () => {
    for (const size of [2, 4, 8]) {
      it.each([
        [1, 1],
        [3, 40],
        [130, 257],
      ])(`${size} have the sum of all, as a tree: %i x %i`, async (rows, cols) => {
        const parts = Array.from({ length: size }, () => ({
          rows,
          cols,
          values: random.floats(rows * cols),
        }));
        const expected = Float32Array.from(parts[0]!.values, (_, at) =>
          sumAsTree(parts.map(({ values }) => values[at]!)),
        );
        const sums = await crew.run(openGroup(size), 'sum', parts, { threads: size === 2 ? 2 : 1 });
        expect(sums).toEqual(new Array(size).fill(expected));
      });

      it(`${size} have the columns of all, side by side`, async () => {
        const widths = Array.from({ length: size }, (_, rank) => 5 + rank);
        const expected = [0, 1, 2].flatMap((row) =>
          widths.flatMap((width, rank) =>
            Array.from({ length: width }, (_, column) => columnValue(rank, row * width + column)),
          ),
        );
        const columns = await crew.run(openGroup(size), 'columns', widths);
        expect(columns).toEqual(new Array(size).fill([expected, expected]));
      });
    }

    it('make the columns of a product that one makes, wherever they are', async () => {
      const [rows, n, k] = [70, 44, 331];
      const weight = folder.write([n, k], random.floats(n * k));
      const x = { rows, cols: k, values: random.floats(rows * k, 'bf16') };
      const alone = openAlone();
      open.push(alone);
      for (const splitsK of [false, true]) {
        const input = { x, weight, splitsK };
        const expected = PROGRAMS.product(alone, alone.ranks, input);
        for (const size of [2, 4]) {
          const products = await crew.run(openGroup(size), 'product', input);
          expect(products).toEqual(new Array(size).fill(expected));
        }
      }
    });

    it('may have an op of no rows before any other', async () => {
      expect(await crew.run(openGroup(2), 'noRows', undefined)).toHaveLength(2);
    });

    it('share columns in place', async () => {
      const expected = [1, 2, 2, 1, 2, 2];
      expect(await crew.run(openGroup(2), 'columnsInPlace', [1, 2])).toEqual([expected, expected]);
    });

    it('go on with the tokens that rank 0 samples', async () => {
      const logits = { rows: 2, cols: 3, values: Float32Array.of(0, 1, 0, 9, 1, 2) };
      expect(await crew.run(openGroup(2), 'sampled', logits)).toEqual([
        [1, 0],
        [1, 0],
      ]);
    });

    it('compute on memory that comes again, op after op', async () => {
      const results = await crew.run(openGroup(4), 'rounds', 300);
      const expected = Array.from({ length: 300 }, (_, round) => 4 * (4 * round + 6));
      expect(results).toEqual(new Array(4).fill(expected));
    });

    it('take memory while the others are at their ops', async () => {
      const results = await crew.run(openGroup(4), 'growing', 8);
      expect(results).toEqual(new Array(4).fill(new Array(8).fill(6)));
    });
  });

  describe('a rank that will not come', needs, () => {
    const part = { rows: 1, cols: 1, values: Float32Array.of(1) };
    const parts = [part, part, part, part];

    it('is named once the deadline is over', async () => {
      await crew.open(openGroup(4, 1500), { ranks: [0, 2] });
      const late = 'ranks cannot go on: rank 1, 3 did not come within 1500 ms';
      await Promise.all(
        crew.start([0, 2], 'sum', parts).map((waiting) => expect(waiting).rejects.toThrow(late)),
      );
    });

    it('is named when its backend closes', async () => {
      await crew.open(openGroup(2));
      const [first] = crew.start([0], 'sum', parts);
      const ending = expect(first).rejects.toThrow('ranks cannot go on: rank 1 has ended');
      await crew.release([1]);
      await ending;
    });

    it('may be called off', async () => {
      const group = openGroup(2);
      await crew.open(group, { ranks: [0] });
      const [first] = crew.start([0], 'sum', parts);
      const ending = expect(first).rejects.toThrow('ranks cannot go on: its thread could not be started');
      group.break('its thread could not be started');
      await ending;
      expect(() => openRank(group.seats[1]!)).toThrow('there is no such rank group, or it is broken');
    });
  });

  describe('ranks that fall apart', needs, () => {
    it('say where each is', async () => {
      await crew.open(openGroup(2));
      const part = { rows: 1, cols: 2, values: new Float32Array(2) };
      const both = [...crew.start([0], 'sum', [part]), ...crew.start([1], 'columns', [3, 2])];
      for (const ending of await Promise.allSettled(both)) {
        expect(ending).toMatchObject({
          status: 'rejected',
          reason: {
            message: expect.stringMatching(
              /rank [01] is at (sumRanks of 1 x 2, rank 1 is at gatherColumns of 3 x 5|gatherColumns of 3 x 5, rank 0 is at sumRanks of 1 x 2)/,
            ),
          },
        });
      }
    });

    it('are told what they give wrong before anyone waits', () => {
      const { seats } = openGroup(2);
      const [first, second] = seats.map((seat) => {
        const ops = openRank(seat);
        open.push(ops);
        return ops;
      });
      const x = first!.tensor(new Float32Array(2), 1, 2, 'f32');
      expect(() => first!.gatherColumns(x, [2])).toThrow(ShapeError);
      expect(() => first!.gatherColumns(x, [1, 1])).toThrow(ShapeError);
      expect(() => second!.shareColumns(x, [1, 1])).toThrow(ShapeError);
      expect(() => first!.shareSampled(null, 1)).toThrow(ShapeError);
      expect(() => openRank(seats[0]!)).toThrow('rank 0 has joined its group already');
    });
  });
}
