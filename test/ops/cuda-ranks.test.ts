// Ranks on a GPU each, over emulated GPUs and an emulated NCCL.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import { selectOps } from '../../src/ops/select.ts';
import { needsCudaEmulators, openCuda } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { crewOf, describeRanks, open, openGroup } from './rank-cases.ts';

beforeEach(() => void vi.stubEnv('SVC_EMULATED_GPUS', '8'));
afterEach(() => void vi.unstubAllEnvs());

describeRanks({
  needs: needsCudaEmulators,
  device: 'cuda',
  openAlone: () => openCuda(),
  openRank: (seat) => openCuda(false, seat),
});

describe('the GPUs of ranks', needsCudaEmulators, () => {
  const crew = crewOf('cuda');
  const parts = new Array(4).fill({ rows: 1, cols: 2, values: Float32Array.of(1, 2) });

  it('wait for NCCL where it takes a call later', async () => {
    vi.stubEnv('SVC_EMULATED_NCCL', 'late:gather');
    expect(await crew.run(openGroup(4), 'sum', parts)).toEqual(new Array(4).fill(Float32Array.of(4, 8)));
    expect(await crew.run(openGroup(2), 'rounds', 20)).toHaveLength(2);
  });

  it.each([
    [
      'says that it has lost another',
      'fail:gather',
      /rank 1: NCCL could not bring together .*told by the emu/,
    ],
    ['never ends', 'lose:gather', /no rank has finished an op within 1500 ms/],
  ])('give up, and give nothing, where NCCL %s', async (_, setting, why) => {
    vi.stubEnv('SVC_EMULATED_NCCL', setting);
    await crew.open(openGroup(2, 1500));
    const since = performance.now();
    const endings = await Promise.allSettled(crew.start([0, 1], 'sum', parts));
    for (const ending of endings) {
      expect(ending).toMatchObject({
        status: 'rejected',
        reason: { message: expect.stringMatching(why) },
      });
    }
    expect(performance.now() - since).toBeLessThan(5000);
  });

  it('are not late because nothing was asked of them for longer than their deadline', async () => {
    expect(await crew.run(openGroup(2, 1500), 'aroundPause', 2000)).toEqual([
      [3, 3],
      [3, 3],
    ]);
  });

  it('give nothing of a sum that was there when another rank gave up', async () => {
    vi.stubEnv('SVC_EMULATED_NCCL', 'fail:gather');
    const told = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    await crew.open(openGroup(2));
    const [first, second] = crew.start([0, 1], 'sumSeenLate', { values: [1, 2], told });
    const ending = expect(first).rejects.toThrow('NCCL could not bring together');
    await expect(second).rejects.toThrow('NCCL could not bring together');
    Atomics.store(told, 0, 1);
    Atomics.notify(told, 0);
    await ending;
  });

  it('go on while another thread takes and frees memory', async () => {
    const running = { crew: true };
    const results = crew.run(openGroup(4), 'rounds', 200).finally(() => {
      running.crew = false;
    });
    while (running.crew) {
      openCuda().close();
      await new Promise(setImmediate);
    }
    expect(await results).toHaveLength(4);
  });

  it('have memory of their own', () => {
    const freeOf = (gpu: number): number => {
      const device = loadNative().cudaDevice(cudaDriver(), gpu);
      if (device.missing !== undefined) throw new Error(device.missing);
      return device.freeBytes;
    };
    const free = () => [0, 1, 2].map(freeOf);
    const before = free();
    const ranks = openGroup(2).seats.map((seat) => openCuda(false, seat));
    open.push(...ranks);
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
