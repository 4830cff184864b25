// How many KV blocks each GPU of several has room for.

import { expect, it } from 'vitest';
import { kvCacheShape } from '../../src/models/decoder.ts';
import type { CacheSize } from '../../src/models/model.ts';
import { RankShare } from '../../src/models/rank-share.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { kvBlockBytes } from '../../src/runner/kv-budget.ts';
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
