// The law that everything else stands on: what a request gets back depends on the request alone.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Device, ENGINE_DEFAULTS, type EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { writeTinyModel } from '../../src/models/tiny-model.ts';
import { probeNative } from '../../src/native/native.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { newRequest } from '../helpers/new-request.ts';

const DEVICES: readonly Device[] = probeNative() === null ? ['reference'] : ['cpu', 'reference'];
const DTYPES = ['float32', 'bfloat16'] as const;
const VOCAB = 256;

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-invariance-'));
  await writeTinyModel(folder, { seed: 1 });
});
afterAll(() => rmSync(folder, { recursive: true }));

function request(id: number, seed: number, promptLength: number, temperature: number): NewRequest {
  return newRequest({
    id,
    promptTokenIds: Array.from({ length: promptLength }, (_, index) => (seed * 131 + index * 17) % VOCAB),
    sampling: { temperature, topP: 0.95, seed },
    stop: { maxTokens: 12 },
  });
}

async function start(device: Device, options: Partial<EngineConfig>): Promise<EngineCore> {
  const config = {
    ...ENGINE_DEFAULTS,
    modelPath: folder,
    kvCacheMemoryBytes: 8 * 2 ** 20,
    ...options,
    device,
  };
  return EngineCore.start(config, () => {});
}

/** Runs `requests`, all added before the first step; gives each one's tokens. */
async function generate(
  device: Device,
  requests: readonly NewRequest[],
  options: Partial<EngineConfig> = {},
): Promise<Map<number, number[]>> {
  const core = await start(device, options);
  const tokens = new Map<number, number[]>(requests.map(({ id }) => [id, []]));
  for (const one of requests) core.add(one);
  while (core.hasUnfinished) {
    for (const { requestId, tokenId } of core.step()) tokens.get(requestId)!.push(tokenId);
  }
  expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
  core.close();
  return tokens;
}

describe.each(DEVICES)('on the %s backend', (device) => {
  describe.each(DTYPES)('in %s', (dtype) => {
    it('a request gets the same tokens alone, among 16 others and with prompt chunks of 7', async () => {
      for (const temperature of [0, 1]) {
        const one = request(99, 5, 45, temperature);
        const others = Array.from({ length: 16 }, (_, index) => request(index, index + 10, 3 + 7 * index, 1));
        const alone = (await generate(device, [one], { dtype })).get(99);
        expect(alone).toHaveLength(12);
        const among = await generate(device, [...others.slice(0, 9), one, ...others.slice(9)], { dtype });
        expect(among.get(99)).toEqual(alone);
        const chunked = await generate(device, [one], { dtype, maxNumBatchedTokens: 7, maxNumSeqs: 4 });
        expect(chunked.get(99)).toEqual(alone);
      }
    });
  });

  it('any mix of lengths, chunks, seats and too few blocks changes no token of any request', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ seed: fc.nat(50), promptLength: fc.integer({ min: 1, max: 70 }) }), {
          minLength: 2,
          maxLength: 6,
        }),
        fc.record({
          maxNumBatchedTokens: fc.integer({ min: 8, max: 80 }),
          maxNumSeqs: fc.integer({ min: 1, max: 8 }),
          maxModelLen: fc.constant(96),
          numBlocks: fc.integer({ min: 6, max: 14 }),
          numThreads: fc.integer({ min: 1, max: 2 }),
        }),
        async (shapes, { numBlocks, ...options }) => {
          const requests = shapes.map(({ seed, promptLength }, id) => request(id, seed, promptLength, 1));
          const bytesOfBlock = await blockBytes(device);
          const together = await generate(device, requests, {
            ...options,
            kvCacheMemoryBytes: numBlocks * bytesOfBlock,
          });
          for (const one of requests) {
            expect(together.get(one.id)).toEqual((await generate(device, [one])).get(one.id));
          }
        },
      ),
      { numRuns: device === 'cpu' ? 12 : 3 },
    );
  });
});

/** KV bytes of one block, found from how many fit. */
async function blockBytes(device: Device): Promise<number> {
  const kvCacheMemoryBytes = 8 * 2 ** 20;
  const core = await start(device, { kvCacheMemoryBytes });
  const { numBlocks } = core.stats;
  core.close();
  return Math.ceil(kvCacheMemoryBytes / numBlocks);
}
