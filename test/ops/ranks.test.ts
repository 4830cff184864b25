// Ranks on the processor.

import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { openCpuDevice } from '../../src/ops/native/cpu-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { RankGroup, RankSeat } from '../../src/ops/ranks.ts';
import { openRankGroup, selectOps } from '../../src/ops/select.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needsNative } from '../helpers/needs.ts';
import { ADDON } from '../helpers/transfer-process.ts';
import { describeRanks, open, openGroup } from './rank-cases.ts';

const openRank = (seat: RankSeat): NativeOps =>
  new NativeOps(openCpuDevice(loadNative(), { numThreads: seat.size, cpuBind: null, cpuIsa: null }, seat));

describeRanks({
  needs: needsNative,
  device: 'cpu',
  openAlone: () => new NativeOps(openCpuDevice(loadNative(), { numThreads: 1, cpuBind: null, cpuIsa: null })),
  openRank,
});

/** On a processor one thread can call the ops of all: each has a stream of its own. */
describe('streams of ranks', needsNative, () => {
  const openRanks = (group: RankGroup): NativeOps[] =>
    group.seats.map((seat) => {
      const ops = openRank(seat);
      open.push(ops);
      return ops;
    });

  const waiting = (ops: NativeOps) => {
    ops.sumRanks(ops.tensor(Float32Array.of(1), 1, 1, 'f32'));
    return ops.mark();
  };

  it('hear of a rank whose thread is ended while it waits itself', async () => {
    const group = openGroup(4);
    const [first] = openRanks({ ...group, seats: group.seats.filter(({ rank }) => rank !== 2) });
    const source = `
      const { parentPort, workerData } = require('node:worker_threads');
      const addon = require(workerData.addon);
      const backend = new addon.CpuBackend('portable', 1, undefined, workerData.group, 2);
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

  it('take nothing from what all have finished', () => {
    for (let round = 0; round < 30; round++) {
      const [first, second] = openRanks(openGroup(2));
      const marks = [first!, second!].map(waiting);
      marks[0]!.read();
      first!.close();
      marks[1]!.read();
      second!.close();
    }
  });

  it('do not hold a backend that closes', () => {
    const [first] = openRanks(openGroup(2));
    waiting(first!);
    first!.close();
  });
});

it('ranks are 2, 4 or 8, and none is computed by the reference', needsNative, () => {
  expect(() => openRankGroup(3)).toThrow('2, 4 or 8 ranks');
  expect(() => openRankGroup(16)).toThrow('from 2 to 8');
  const [seat] = openGroup(2).seats;
  expect(() => selectOps({ ...ENGINE_DEFAULTS, device: 'reference' }, seat)).toThrow(
    'several ranks are not available with --device reference',
  );
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
