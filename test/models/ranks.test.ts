// Models that ranks share: the bits of one that is whole.

import { afterEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { RankShare } from '../../src/models/rank-share.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { loadNative } from '../../src/native/native.ts';
import { openCpuDevice } from '../../src/ops/native/cpu-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { RankSeat } from '../../src/ops/ranks.ts';
import { openRankGroup } from '../../src/ops/select.ts';
import { needsNative } from '../helpers/needs.ts';
import { architectureGoldens, type GoldenModel, mxfp4Golden } from './golden-cases.ts';
import { ModelSession } from './model-session.ts';

const open: { close(): void }[] = [];
afterEach(() => {
  for (const thing of open.splice(0)) thing.close();
});

type Options = Pick<Parameters<typeof loadModel>[2], 'dtype' | 'quantization'>;

async function loadOn(golden: GoldenModel, options: Options, seat?: RankSeat) {
  const threads = { numThreads: seat?.size ?? 1, cpuBind: null, cpuIsa: null };
  const ops = new NativeOps(openCpuDevice(loadNative(), threads, seat));
  open.push(ops);
  const model = await loadModel(openModelSource(golden.folder), ops, {
    ...options,
    maxModelLen: golden.maxModelLen,
  });
  return { ops, model };
}

/** One for each rank, in the order of ranks. */
async function loadRanks(golden: GoldenModel, options: Options, size: number) {
  const group = openRankGroup(size, 20_000);
  open.push({ close: () => group.break('the test is over') });
  return await Promise.all(group.seats.map((seat) => loadOn(golden, options, seat)));
}

/** Logits of the last tokens of a prompt, computed in parts, by each rank. */
async function logitsOf(
  ranks: Awaited<ReturnType<typeof loadRanks>>,
  { ids, rows }: GoldenModel['cases'][number],
  chunk: number,
) {
  const sessions = ranks.map(({ ops, model }) => new ModelSession(ops, model, ids.length));
  const last = Math.max(0, Math.min(chunk, ids.length - rows));
  const pending = sessions.map((session) => (last > 0 ? session.launch(ids.slice(0, last), 1) : null));
  for (const read of pending) read?.();
  const reads = sessions.map((session) => session.launch(ids.slice(last), rows));
  return reads.map((read) => read())[0]!;
}

const MXFP4 = mxfp4Golden();
/** Of which other formats are tried: whole layers, and experts. */
const MANY_FORMATS = ['llama', 'mixtral'];

function optionsOf({ name }: GoldenModel): readonly Options[] {
  if (name === MXFP4.name) return [{ dtype: 'auto' }];
  const quantizations = [
    null,
    'int8',
    ...(MANY_FORMATS.includes(name) ? (['int4', 'fp8'] as const) : []),
  ] as const;
  return [
    { dtype: 'float32' },
    ...quantizations.map((quantization) => ({ dtype: 'bfloat16', quantization }) as const),
  ];
}

/** The largest degree that the model can be shared by, of two or four. */
function degreeOf(golden: GoldenModel): number {
  const config = readModelConfig(openModelSource(golden.folder));
  const canShare = (size: number): boolean => {
    try {
      new RankShare({ rank: 0, size }).expectPossible(config);
      return true;
    } catch (error) {
      if (error instanceof ConfigError) return false;
      throw error;
    }
  };
  return [4, 2].find(canShare) ?? 1;
}

/** All but those with one head of keys and values. */
const goldens = [...architectureGoldens(), MXFP4].filter((golden) => degreeOf(golden) > 1);

describe.each(goldens)('$name over ranks', (golden) => {
  it.each(optionsOf(golden))('has the bits of one: $dtype, $quantization', needsNative, async (options) => {
    const [first] = golden.cases;
    const expected = await logitsOf([await loadOn(golden, options)], first!, 5);
    const ranks = await loadRanks(golden, options, degreeOf(golden));
    expect(await logitsOf(ranks, first!, 5)).toEqual(expected);
  });
});

it('most models are shared', () => {
  expect(goldens.length).toBeGreaterThan(30);
});
