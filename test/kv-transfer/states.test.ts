// Prompts of models whose layers keep states from one engine to another: the other one goes on from the states as they are where its blocks
// end, and answers as one that has computed all itself.

import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { KvEngine } from '../helpers/kv-engine.ts';
import { needsNative } from '../helpers/needs.ts';

const SEND_TYPES = ['PUT_ASYNC', 'PUT', 'GET'] as const;
const MAX_TOKENS = 8;
/** One layer of four has keys and values, the others have states of heads and of a convolution. */
const FOLDER = fileURLToPath(new URL('../fixtures/goldens/qwen3-next', import.meta.url));

type StartArguments = Parameters<typeof KvEngine.start>;
const engines: KvEngine[] = [];
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

async function start(
  role: StartArguments[1],
  options: Partial<EngineConfig> = {},
  transfer: StartArguments[3] = {},
  hooks: StartArguments[4] = {},
): Promise<KvEngine> {
  const engine = await KvEngine.start(FOLDER, role, { maxNumBatchedTokens: 24, ...options }, transfer, hooks);
  engines.push(engine);
  return engine;
}

const promptOf = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 31 + i * 17 + i * i * seed) % 93));

/** What an engine answers that computes all itself. */
async function alone(prompt: readonly number[]): Promise<number[]> {
  const engine = await KvEngine.start(FOLDER, 'kv_consumer', { enablePrefixCaching: false });
  return engine.answer('alone', prompt, MAX_TOKENS).finally(() => engine.close());
}

/** What D answers after P, which makes `numTokens` tokens itself. */
async function throughBoth(p: KvEngine, d: KvEngine, prompt: readonly number[], numTokens = 1) {
  const id = makeRequestId(p.address, d.address);
  await p.answer(id, prompt, numTokens);
  return await d.answer(id, prompt, MAX_TOKENS);
}

const recomputed = ({ stats }: KvEngine) =>
  Object.values(stats.receive.recomputed).reduce((sum, count) => sum + count, 0);

describe.each(SEND_TYPES)('with %s', needsNative, (sendType) => {
  it.each(['shm', 'tcp'] as const)('prompts of any length go on by %s', async (transport) => {
    const [p, d] = [await start('kv_producer', {}, { sendType, transport }), await start('kv_consumer')];
    const lengths = [18, 32, 33, 34, 49, 80];
    for (const length of lengths) {
      const prompt = promptOf(length, length);
      expect(await throughBoth(p, d, prompt), `${length} tokens`).toEqual(await alone(prompt));
    }
    expect(d.stats.receive.loadedTokens).toBe(lengths.reduce((sum, length) => sum + length - 1, 0));
    expect(recomputed(d)).toBe(0);
    // D answers without waiting for P to have heard that all has arrived.
    await expect.poll(() => p.stats.send).toMatchObject({ delivered: lengths.length, holding: 0 });
  });

  it('they go on from what P, or D, has kept of their beginnings', async () => {
    const [p, d] = [await start('kv_producer', {}, { sendType }), await start('kv_consumer')];
    const prompt = promptOf(1, 81);
    const [beginning, half] = [prompt.slice(0, 49), prompt.slice(0, 65)];
    const [ofHalf, ofAll] = [await alone(half), await alone(prompt)];
    await p.answer('alone', beginning, 1);
    expect(await throughBoth(p, d, half)).toEqual(ofHalf);
    // P has all of it this time, D the blocks, but no states behind them.
    expect(await throughBoth(p, d, half)).toEqual(ofHalf);
    expect(d.stats.receive.loadedTokens).toBe(2 * 64);
    await d.answer('alone', beginning, 1);
    expect(await d.answer('alone', half, MAX_TOKENS)).toEqual(ofHalf);
    // Now D has the states behind 64 tokens.
    expect(await throughBoth(p, d, [...prompt, ...promptOf(2, 9)])).toEqual(
      await alone([...prompt, ...promptOf(2, 9)]),
    );
    expect(await throughBoth(p, d, prompt)).toEqual(ofAll);
    expect(recomputed(d)).toBe(0);
  });

  it('they come without the last block where P goes on to write into it', async () => {
    const [p, d] = [await start('kv_producer', {}, { sendType }), await start('kv_consumer')];
    for (const length of [40, 49]) {
      const prompt = promptOf(length, length);
      expect(await throughBoth(p, d, prompt, 5)).toEqual(await alone(prompt));
    }
    expect(d.stats.receive.loadedTokens).toBe(32 + 48);
    expect(recomputed(d)).toBe(0);
  });

  it('they come into the pool where the buffer is full', async () => {
    const room = { bufferBytes: 0, poolBytes: 2 ** 20 };
    const [p, d] = [await start('kv_producer', {}, { sendType }), await start('kv_consumer', {}, room)];
    const prompt = promptOf(3, 50);
    expect(await throughBoth(p, d, prompt)).toEqual(await alone(prompt));
    expect(d.stats.receive).toMatchObject({ viaPool: 1, viaBuffer: 0, loadedTokens: 49, poolUsedBytes: 0 });
  });

  it('D computes them where there is no room for their states', async () => {
    const room = { bufferBytes: 0, poolBytes: 2 ** 13 };
    const [p, d] = [await start('kv_producer', {}, { sendType }), await start('kv_consumer', {}, room)];
    const prompt = promptOf(3, 50);
    expect(await throughBoth(p, d, prompt)).toEqual(await alone(prompt));
    expect(d.stats.receive).toMatchObject({ loadedTokens: 0, recomputed: { no_room: 1 } });
  });
});

describe('in stages', needsNative, () => {
  const IN_TWO = {
    pipelineParallelSize: 2,
    loadFormat: 'dummy',
    hfOverrides: { num_hidden_layers: 8 },
  } as const;

  it('each stage sends the states of its layers', async () => {
    const { pipelineParallelSize: _, ...whole } = IN_TWO;
    const [p, d, one] = [
      await start('kv_producer', IN_TWO),
      await start('kv_consumer', IN_TWO),
      await start('kv_consumer', whole),
    ];
    const prompt = promptOf(5, 60);
    expect(await throughBoth(p, d, prompt)).toEqual(await one.answer('alone', prompt, MAX_TOKENS));
    expect(d.stats.receive.loadedTokens).toBe(59);
  });

  it('states go between instances of as many only: else D computes prompts, and both say why', async () => {
    const { pipelineParallelSize: _, ...whole } = IN_TWO;
    const warnings: string[] = [];
    const hooks = { onWarning: (message: string) => void warnings.push(message) };
    const p = await start('kv_producer', IN_TWO, {}, hooks);
    const d = await start('kv_consumer', whole, {}, hooks);
    const prompt = promptOf(5, 60);
    const expected = await d.answer('alone', prompt, MAX_TOKENS);
    expect(await throughBoth(p, d, prompt)).toEqual(expected);
    expect(d.stats.receive.loadedTokens).toBe(0);
    const reason = expect.stringMatching(/keep states.*same --tensor-parallel-size/);
    // Each instance tells it when it hears of the other.
    await expect.poll(() => warnings).toEqual([reason, reason]);
  });
});

it(
  'an answer that goes on from other states is another one: these tests would notice',
  needsNative,
  async () => {
    const p = await start('kv_producer');
    const { stateBlocks = 0 } = p.compatibility;
    expect(stateBlocks).toBeGreaterThan(1);
    const d = await start(
      'kv_consumer',
      {},
      {},
      {
        alter: (event) => {
          if (event.kind !== 'load') return event;
          const endOfTokens = event.blocks.length - stateBlocks;
          const ofStates = event.blocks.slice(endOfTokens).reverse();
          return { ...event, blocks: [...event.blocks.slice(0, endOfTokens), ...ofStates] };
        },
      },
    );
    const prompt = promptOf(7, 60);
    expect(await throughBoth(p, d, prompt)).not.toEqual(await alone(prompt));
    expect(d.stats.receive.loadedTokens).toBe(59);
  },
);
