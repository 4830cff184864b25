// How many KV blocks each GPU of several has room for.

import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { type CacheSize, kvCacheShape } from '../../src/models/kv-cache-shape.ts';
import { RankShare } from '../../src/models/rank-share.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { DeviceMemory } from '../../src/ops/ops.ts';
import { ALONE } from '../../src/ops/ranks.ts';
import { kvBlockBytes, stateBytes } from '../../src/runner/kv-budget.ts';
import { KvPlan } from '../../src/runner/kv-plan.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

it.each([
  ['its part of what receives blocks of other GPUs', 'LlamaForCausalLM', 2],
  ['all of it where latents are whole on each', 'DeepseekV3ForCausalLM', 1],
])('has less by %s', (_, architecture, numCuts) => {
  const folder = newFolder();
  writeTinyModel(folder, { architecture });
  const config = readModelConfig(openModelSource(folder));
  const ranks = { rank: 1, size: 2 };
  const shapeOf = (size: CacheSize) => kvCacheShape(config, 'bf16', size, new RankShare(ranks));
  const model = { config, dtype: 'bf16', kvDType: 'bf16', kvCacheShape: shapeOf } as const;
  const device = { totalBytes: 1e8, takenBytes: 0, reservedBytes: 0 };
  const ops = { freeMemory: () => 1e8, deviceMemory: () => device, ranks };
  const numBlocks = (bufferBytes: number) => {
    const kvTransfer = kvTransferConfig({ transport: 'nccl', role: 'kv_consumer', bufferBytes });
    const options = { kvCacheMemoryBytes: null, gpuMemoryUtilization: 1, maxNumSeqs: 1e6, kvTransfer };
    return new KvPlan({ ...ENGINE_DEFAULTS, ...options }, [ops]).numBlocks(model, 64);
  };
  const ownBytes = kvBlockBytes(shapeOf({ blocks: 1, blockSize: ENGINE_DEFAULTS.blockSize, sequences: 1 }));
  expect(numBlocks(0) - numBlocks(1000 * ownBytes * numCuts)).toBe(1000);
});

it('leaves to blocks that come what caches and images do not take of the host', () => {
  const folder = newFolder();
  writeTinyModel(folder, {});
  const config = readModelConfig(openModelSource(folder));
  const shapeOf = (size: CacheSize) => kvCacheShape(config, 'bf16', size);
  const model = { config, dtype: 'bf16', kvDType: 'bf16', kvCacheShape: shapeOf } as const;
  const ofBlock = kvBlockBytes(shapeOf({ blocks: 1, blockSize: ENGINE_DEFAULTS.blockSize, sequences: 1 }));
  const roomOf = (device: DeviceMemory | null) => {
    const ops = { freeMemory: () => 1e12, deviceMemory: () => device, ranks: { rank: 1, size: 2 } };
    const taken = { draftBytes: 7e9, encoderBytes: 1e9, weightBytes: 1e10, activationBytes: [] };
    return new KvPlan(ENGINE_DEFAULTS, [ops], taken).receiveRoom(model, 1000, 1e11);
  };
  const beside = 1e11 - 2 ** 30 - 2 * 1e9;
  expect(roomOf(null)).toBe(beside - 7e9 - 1000 * ofBlock * 2);
  expect(roomOf({ totalBytes: 1e12, takenBytes: 0, reservedBytes: 0 })).toBe(beside);
});

describe('a model whose layers keep states', () => {
  const folder = fileURLToPath(new URL('../fixtures/goldens/qwen3-next', import.meta.url));
  const config = readModelConfig(openModelSource(folder));
  const shapeOf = (size: CacheSize) => kvCacheShape(config, 'bf16', size);
  const model = { config, dtype: 'bf16', kvDType: 'bf16', kvCacheShape: shapeOf } as const;
  const { blockSize } = ENGINE_DEFAULTS;
  const ofState = stateBytes(
    { shape: shapeOf({ blocks: 1, blockSize, sequences: 1 }), windows: [null] },
    { numRanks: 1, stage: null },
  );
  const ofBlock = kvBlockBytes(shapeOf({ blocks: 1, blockSize, sequences: 1 }));
  const planOf = (bytes: number, options: Partial<EngineConfig> = {}) => {
    const ops = { freeMemory: () => 1e12, deviceMemory: () => null, ranks: ALONE };
    return new KvPlan({ ...ENGINE_DEFAULTS, kvCacheMemoryBytes: bytes, maxNumSeqs: 8, ...options }, [ops]);
  };

  it('has as many states as sequences may run, and kept ones, where these take half of the memory at most', () => {
    expect(planOf(1e9).fittingStates(model)).toBe(8 + 64);
    expect(planOf(1e9, { enablePrefixCaching: false }).fittingStates(model)).toBe(8);
    expect(planOf(20 * ofState).fittingStates(model)).toBe(10);
    expect(planOf(ofState / 2).fittingStates(model)).toBe(1);
  });

  it('has blocks in what its states leave', () => {
    const plan = planOf(20 * ofState + 5);
    expect(plan.withStates(plan.fittingStates(model)).numBlocks(model, 64)).toBe(
      Math.floor((10 * ofState + 5) / ofBlock),
    );
  });

  it('needs blocks for the states of a request that goes to another instance, or comes', () => {
    const kvTransfer = kvTransferConfig({});
    const { stateBlocks } = planOf(1e9, { kvTransfer }).design(model);
    expect(stateBlocks).toBe(Math.ceil(ofState / ofBlock));
    expect(planOf(1e9).design(model).stateBlocks).toBe(0);
    const needed = (128 / blockSize + stateBlocks) * ofBlock + ofState;
    const plan = planOf(needed - 1, { kvTransfer }).withStates(1);
    expect(() => plan.numBlocks(model, 128)).toThrow(`--kv-cache-memory-bytes to at least ${needed} `);
    const enough = planOf(needed, { kvTransfer }).withStates(1);
    expect(enough.numBlocks(model, 128)).toBe(128 / blockSize + stateBlocks);
  });

  it('says how much memory would be enough, its states included', () => {
    const perRequest = 128 / blockSize;
    const needed = perRequest * ofBlock + ofState;
    const plan = planOf(needed - 1).withStates(1);
    expect(() => plan.numBlocks(model, 128)).toThrow(`--kv-cache-memory-bytes to at least ${needed} `);
    const enough = planOf(needed).withStates(1);
    expect(enough.numBlocks(model, 128)).toBe(perRequest);
  });
});
