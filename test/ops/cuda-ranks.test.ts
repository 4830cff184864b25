// Ranks on a GPU each, over emulated GPUs and an emulated NCCL.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ConfigError, RanksBrokenError } from '../../src/errors.ts';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import type { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { RankGroup } from '../../src/ops/ranks.ts';
import { selectOps } from '../../src/ops/select.ts';
import { needsCudaEmulators, openCuda } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { describeRanks, open, openGroup } from './rank-cases.ts';

beforeEach(() => void vi.stubEnv('SVC_EMULATED_GPUS', '8'));
afterEach(() => void vi.unstubAllEnvs());

describeRanks({
  needs: needsCudaEmulators,
  isTogether: false,
  openAlone: () => openCuda(),
  openRank: (seat) => openCuda(false, seat),
  opening: (rank) =>
    `new addon.CudaBackend(process.env.SVC_CUDA_DRIVER, process.env.SVC_CUDA_KERNELS, ${rank}, false, false, false,
      { group, rank: ${rank}, nccl: process.env.SVC_NCCL })`,
});

describe('the GPUs of ranks', needsCudaEmulators, () => {
  function openRanks(group: RankGroup): NativeOps[] {
    const ranks = group.seats.map((seat) => openCuda(false, seat));
    open.push(...ranks);
    return ranks;
  }

  /** The last rank is read first. */
  function sumOfAll(group: RankGroup): () => Float32Array[] {
    const ranks = openRanks(group).reverse();
    const sums = ranks.map((ops) => ops.tensor(Float32Array.of(1, 2), 1, 2, 'f32'));
    for (const [index, ops] of ranks.entries()) ops.sumRanks(sums[index]!);
    return () => ranks.map((ops, index) => ops.read(sums[index]!));
  }

  it('wait for NCCL where it takes a call later', () => {
    vi.stubEnv('SVC_EMULATED_NCCL', 'late:gather');
    const sum = Float32Array.of(4, 8);
    expect(sumOfAll(openGroup(4))()).toEqual([sum, sum, sum, sum]);
  });

  it.each([
    [
      'says that it has lost another',
      'fail:gather',
      /rank 1: NCCL could not bring together .*told by the emu/,
    ],
    ['never ends', 'lose:gather', /no rank has finished an op within 300 ms/],
  ])('give up where NCCL %s', (_, setting, why) => {
    vi.stubEnv('SVC_EMULATED_NCCL', setting);
    const since = performance.now();
    const group = openGroup(2, 300);
    const read = sumOfAll(group);
    expect(read).toThrow(RanksBrokenError);
    expect(read).toThrow(why);
    expect(performance.now() - since).toBeLessThan(5000);
  });

  it('have memory of their own', () => {
    const freeOf = (gpu: number): number => {
      const device = loadNative().cudaDevice(cudaDriver(), gpu);
      if (device.missing !== undefined) throw new Error(device.missing);
      return device.freeBytes;
    };
    const free = () => [0, 1, 2].map(freeOf);
    const before = free();
    const ranks = openRanks(openGroup(2));
    ranks[1]!.tensor(new Float32Array(2 ** 20), 1, 2 ** 20, 'f32');
    const [first, second, third] = free().map((bytes, gpu) => before[gpu]! - bytes);
    expect(second! - first!).toBeGreaterThanOrEqual(2 ** 22);
    expect(third).toBe(0);
    expect(ranks.map((ops) => ops.freeMemory())).toEqual([freeOf(0), freeOf(1)]);
  });

  const select = (size: number) => {
    const { seats } = openGroup(size);
    const { ops } = selectOps({ ...ENGINE_DEFAULTS, device: 'cuda' }, seats[1]);
    ops.close();
  };

  it.each([
    [
      'fewer',
      { SVC_EMULATED_GPUS: '3' },
      /^--tensor-parallel-size 4 needs 4 GPUs, .* shows 3: .*ask for fewer/,
    ],
    [
      'unlike',
      { SVC_EMULATED_CAPABILITY: '90,80' },
      /GPU 0 is .*\(sm_90\), GPU 1 is .*\(sm_80\): choose others/,
    ],
    [
      'without NCCL',
      { SVC_NCCL: '/nowhere/libnccl.so.2' },
      /NCCL is not there \(\/nowhere.*install NVIDIA's NCCL 2\.17/,
    ],
    ['with an old NCCL', { SVC_EMULATED_NCCL_VERSION: '21600' }, /NCCL is too old \(21600\): install 2\.17/],
  ])('are refused where they are %s', (_, variables, why) => {
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    expect(() => select(4)).toThrow(ConfigError);
    expect(() => select(4)).toThrow(why);
  });
});
