// Ranks on the processor.

import { describe, expect, it } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { openCpuDevice } from '../../src/ops/native/cpu-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import { openRankGroup, selectOps } from '../../src/ops/select.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needsNative } from '../helpers/needs.ts';
import { describeRanks, open, openGroup } from './rank-cases.ts';

describeRanks({
  needs: needsNative,
  isTogether: true,
  openAlone: () => new NativeOps(openCpuDevice(loadNative(), { numThreads: 1, cpuBind: null, cpuIsa: null })),
  openRank(seat, threads) {
    const options = { numThreads: threads * seat.size, cpuBind: null, cpuIsa: null };
    return new NativeOps(openCpuDevice(loadNative(), options, seat));
  },
  opening: (rank) => `new addon.CpuBackend('portable', 1, undefined, group, ${rank})`,
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
