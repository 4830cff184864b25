// Prompts of models whose layers differ in their heads of keys and values from one engine to another: layers that share a row of a block go
// together, and the other one answers as one that has computed all itself.

import { afterEach, describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { KvEngine } from '../helpers/kv-engine.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { writeHeadsModel } from '../helpers/tiny-models.ts';
import { transferBytes } from './transfer-bytes.ts';

const SEND_TYPES = ['PUT_ASYNC', 'PUT', 'GET'] as const;
const MAX_TOKENS = 8;

const newFolder = temporaryFolders();
function modelWith(fields: Readonly<Record<string, unknown>>): string {
  const folder = newFolder();
  writeHeadsModel(folder, fields);
  return folder;
}

const MODELS = [
  { what: 'two layers with a window in a row', fields: {}, windows: [null, 24, 24], rows: 6 },
  {
    what: 'two layers without a window in a row',
    fields: { num_key_value_heads: 4, num_global_key_value_heads: 1, attention_k_eq_v: true },
    windows: [null, ...new Array<number>(8).fill(24)],
    rows: 9,
  },
  {
    what: 'layers that see the keys of earlier ones, and have no memory',
    fields: { num_kv_shared_layers: 5 },
    windows: [null, 24, 24],
    rows: 3,
  },
] as const;

type StartArguments = Parameters<typeof KvEngine.start>;
const engines: KvEngine[] = [];
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

async function start(
  folder: string,
  role: StartArguments[1],
  options: Partial<EngineConfig> = {},
  ...more: [StartArguments[3]?, StartArguments[4]?]
): Promise<KvEngine> {
  const engine = await KvEngine.start(folder, role, { maxNumBatchedTokens: 24, ...options }, ...more);
  engines.push(engine);
  return engine;
}

const promptOf = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 31 + i * 17 + i * i * seed) % 93));

/** An engine that computes all itself. */
const startAlone = (folder: string, options: Partial<EngineConfig> = {}) =>
  start(folder, 'kv_consumer', { ...options, enablePrefixCaching: false });

/** What D answers after P. */
async function throughBoth(p: KvEngine, d: KvEngine, prompt: readonly number[]): Promise<number[]> {
  const id = makeRequestId(p.address, d.address);
  await p.answer(id, prompt, 1);
  return await d.answer(id, prompt, MAX_TOKENS);
}

const recomputed = ({ stats }: KvEngine) =>
  Object.values(stats.receive.recomputed).reduce((sum, count) => sum + count, 0);

describe.each(MODELS)('with $what', needsNative, ({ fields, windows, rows }) => {
  const model = modelWith(fields);

  it.each(
    SEND_TYPES.flatMap((sendType) => [
      { sendType, transport: 'shm' } as const,
      { sendType, transport: 'tcp' } as const,
    ]),
  )(
    'prompts of any length go on with $sendType by $transport, no more of them than is seen',
    async (transfer) => {
      const [p, d] = [await start(model, 'kv_producer', {}, transfer), await start(model, 'kv_consumer')];
      expect([p.compatibility.windows, p.compatibility.layers]).toEqual([windows, rows]);
      const one = await startAlone(model);
      const lengths = [18, 33, 34, 80];
      for (const length of lengths) {
        const prompt = promptOf(length, length);
        const expected = await one.answer('alone', prompt, MAX_TOKENS);
        expect(await throughBoth(p, d, prompt), `${length} tokens`).toEqual(expected);
      }
      const { loadedTokens, bytes } = d.stats.receive;
      expect(loadedTokens).toBe(lengths.reduce((sum, length) => sum + length - 1, 0));
      const wanted = lengths.map((length) => transferBytes(p.compatibility, length - 1));
      expect(bytes).toBe(wanted.reduce((sum, size) => sum + size, 0));
      expect(recomputed(d)).toBe(0);
      // D answers without waiting for P to have heard that all has arrived.
      await expect.poll(() => p.stats.send).toMatchObject({ delivered: lengths.length, holding: 0 });
    },
  );

  it('they go on from what P, or D, has kept of their beginnings', async () => {
    const [p, d] = [await start(model, 'kv_producer'), await start(model, 'kv_consumer')];
    const prompt = promptOf(1, 81);
    const beginning = prompt.slice(0, 49);
    const one = await startAlone(model);
    const ofBeginning = await one.answer('alone', beginning, MAX_TOKENS);
    const ofAll = await one.answer('alone', prompt, MAX_TOKENS);
    await p.answer('alone', beginning, 1);
    expect(await throughBoth(p, d, beginning)).toEqual(ofBeginning);
    expect(await throughBoth(p, d, prompt)).toEqual(ofAll);
    expect(d.stats.receive.loadedTokens).toBe(80);
    expect(recomputed(d)).toBe(0);
  });
});

describe('with layers of two sizes', needsNative, () => {
  const model = modelWith({});
  const alone = async (prompt: readonly number[], options: Partial<EngineConfig> = {}) =>
    (await startAlone(model, options)).answer('alone', prompt, MAX_TOKENS);

  it('prompts come into the pool where the buffer is full', async () => {
    const room = { bufferBytes: 0, poolBytes: 2 ** 20 };
    const [p, d] = [await start(model, 'kv_producer'), await start(model, 'kv_consumer', {}, room)];
    const prompt = promptOf(3, 50);
    expect(await throughBoth(p, d, prompt)).toEqual(await alone(prompt));
    expect(d.stats.receive).toMatchObject({ viaPool: 1, viaBuffer: 0, loadedTokens: 49 });
    // The pool is given back after the answer.
    await expect.poll(() => d.stats.receive.poolUsedBytes).toBe(0);
  });

  it.each(['fp8', 'int8'] as const)('prompts go in %s', async (kvCacheDtype) => {
    const formats = { dtype: 'bfloat16', kvCacheDtype } as const;
    const [p, d] = [await start(model, 'kv_producer', formats), await start(model, 'kv_consumer', formats)];
    const prompt = promptOf(4, 50);
    expect(await throughBoth(p, d, prompt)).toEqual(await alone(prompt, formats));
    expect([d.stats.receive.loadedTokens, recomputed(d)]).toEqual([49, 0]);
  });

  it.each([
    { stages: 2, ranks: 1 },
    { stages: 1, ranks: 2 },
    { stages: 2, ranks: 2 },
  ] as const)('each of $stages stages of $ranks sends its own', async ({ stages, ranks }) => {
    const parts = { pipelineParallelSize: stages, tensorParallelSize: ranks, numThreads: stages * ranks };
    const [p, d] = [await start(model, 'kv_producer', parts), await start(model, 'kv_consumer', parts)];
    for (const length of [33, 80]) {
      const prompt = promptOf(length, length);
      expect(await throughBoth(p, d, prompt)).toEqual(await alone(prompt));
    }
    expect([d.stats.receive.loadedTokens, recomputed(d)]).toEqual([32 + 79, 0]);
  });

  it.each([
    ['stages', { pipelineParallelSize: 2, numThreads: 2 }],
    ['ranks', { tensorParallelSize: 2, numThreads: 2 }],
    ['tokens in a block', { blockSize: 32 }],
  ] as const)(
    'blocks go between instances of as many %s only: else D computes prompts, and both say why',
    async (_, options) => {
      const warnings: string[] = [];
      const hooks = { onWarning: (message: string) => void warnings.push(message) };
      const p = await start(model, 'kv_producer', options, {}, hooks);
      const d = await start(model, 'kv_consumer', {}, {}, hooks);
      const prompt = promptOf(5, 60);
      expect(await throughBoth(p, d, prompt)).toEqual(await alone(prompt));
      expect(d.stats.receive.loadedTokens).toBe(0);
      const reason = expect.stringMatching(/differ in their heads.*same --tensor-parallel-size/);
      expect(warnings).toEqual([reason, reason]);
    },
  );

  it('an answer that goes on from other blocks is another one: these tests would notice', async () => {
    const p = await start(model, 'kv_producer');
    const alter: NonNullable<StartArguments[4]>['alter'] = (event) =>
      event.kind === 'load' ? { ...event, blocks: event.blocks.toReversed() } : event;
    const d = await start(model, 'kv_consumer', {}, {}, { alter: alter! });
    const prompt = promptOf(7, 60);
    expect(await throughBoth(p, d, prompt)).not.toEqual(await alone(prompt));
    expect(d.stats.receive.loadedTokens).toBe(59);
  });
});
