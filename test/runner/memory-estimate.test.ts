import { statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import { modelFolder } from '../../src/models/model-folder.ts';
import { readQuantization } from '../../src/models/quantization/published-quantization.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { DeviceMemory } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { selectOps } from '../../src/ops/select.ts';
import { estimateLoads, weightsNotice } from '../../src/runner/memory-estimate.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();
const bundled = await modelFolder('');
const bytesOf = (folder: string) => statSync(join(folder, 'model.safetensors')).size;
const size = { bytes: bytesOf(bundled), numbers: bytesOf(bundled) / 2 };

describe('before weights are read', () => {
  const config = readModelConfig(openModelSource(bundled));
  const ranks = new ReferenceOps().ranks;
  const noticeWith = (freeBytes: number, device: DeviceMemory | null = null) =>
    weightsNotice(config, size, null, {
      freeMemory: () => freeBytes,
      deviceMemory: () => device,
      ranks,
    });

  it('a person is told where they are more than the memory that is free, and what fits', () => {
    const published = bytesOf(bundled);
    expect(noticeWith(2 * published)).toBeNull();
    expect(noticeWith(0.8 * published)).toMatch(
      /^the weights take about .*MiB and .* of memory are free: .*; --quantization int8 takes about/,
    );
    expect(noticeWith(0.45 * published)).toMatch(/--quantization int4 takes about/);
    expect(noticeWith(0.1 * published)).toMatch(/take a smaller model$/);
    expect(noticeWith(0, { totalBytes: 1, takenBytes: 0, reservedBytes: 0 })).toBeNull();
  });
});

describe('the memory that a model takes', () => {
  it('is what it takes once it is loaded, at each quantisation', needsNative, async () => {
    const source = openModelSource(bundled);
    const memory = { freeBytes: 1e9, share: 0.9, maxStepTokens: 16 };
    for (const load of estimateLoads(readModelConfig(source), size, memory)) {
      const { ops } = selectOps({ ...ENGINE_DEFAULTS, device: 'cpu' });
      const { quantization } = load;
      const model = await loadModel(source, ops, { dtype: 'auto', quantization, maxModelLen: 64 });
      expect([quantization, Math.abs(load.weightBytes / model.weightBytes - 1) < 0.05]).toEqual([
        quantization,
        true,
      ]);
    }
  });

  it('leaves so many tokens of cache: twice as many in 8 bits, none where the weights take it all', () => {
    const config = readModelConfig(openModelSource(bundled));
    const perToken = 2 * config.numLayers * config.numKvHeads * config.headDim * 2;
    const [plain] = estimateLoads(
      config,
      { bytes: 1000, numbers: 500 },
      {
        // Half is for everything else.
        freeBytes: 1000 + 2 * 200 * perToken,
        share: 0.5,
        maxStepTokens: 16,
      },
    );
    expect(plain).toEqual({
      quantization: null,
      weightBytes: 1000,
      cacheTokens: { bf16: 100, int8: expect.any(Number), fp8: 200 },
    });
    const memory = { freeBytes: 900, share: 1, maxStepTokens: 16 };
    const [none] = estimateLoads(config, { bytes: 1000, numbers: 500 }, memory);
    expect(none?.cacheTokens.fp8).toBe(0);
  });

  it('is that of the files where these are quantised, or that of int8, where it is known how many numbers they hold', () => {
    const config = {
      ...readModelConfig(openModelSource(bundled)),
      quantization: readQuantization('config.json', { quant_method: 'gguf' }),
    };
    const loadsOf = (numbers: number | null) =>
      estimateLoads(config, { bytes: 1234, numbers }, { freeBytes: 1e6, share: 1, maxStepTokens: 16 });
    expect(loadsOf(size.numbers)).toMatchObject([
      { quantization: null, weightBytes: 1234 },
      { quantization: 'int8', weightBytes: size.numbers },
    ]);
    expect(loadsOf(null)).toMatchObject([{ quantization: null, weightBytes: 1234 }]);
  });

  it('halves with float16 and bfloat16, which are computed in bfloat16, but not with float32', () => {
    const config = (dtype: 'f32' | 'f16') => {
      const folder = newFolder();
      writeTinyModel(folder, { dtype });
      return readModelConfig(openModelSource(folder));
    };
    const weights = (dtype: 'f32' | 'f16') =>
      estimateLoads(
        config(dtype),
        { bytes: 4000, numbers: 1000 },
        { freeBytes: 1e6, share: 1, maxStepTokens: 16 },
      )[0];
    expect(weights('f32')).toMatchObject({ weightBytes: 4000, cacheTokens: { f32: expect.any(Number) } });
    expect(weights('f16')).toMatchObject({ weightBytes: 4000, cacheTokens: { bf16: expect.any(Number) } });
  });
});
