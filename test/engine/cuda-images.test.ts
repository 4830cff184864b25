// Images on the CUDA backend, over an emulated driver and its real kernels.

import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { TINY_FAMILIES, tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { emulateGpus, needsCudaEmulator, needsSeveralGpus } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { generate } from '../helpers/generate.ts';
import { imageRequests } from '../helpers/image-requests.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { copyForEngine, MOST_TOKENS } from '../models/vision-cases.ts';
import { IMAGE_TOKENS, requestOf } from './whole-image-prompts.ts';

const newFolder = temporaryFolders();
const opened = closedAfterwards();
afterEach(() => void vi.unstubAllEnvs());

describe.each(['SmolVLM', 'Qwen3-VL'] as const)('of a %s', (family) => {
  const { mark } = TINY_FAMILIES[family];
  const folder = newFolder();
  let requests: NewRequest[];
  beforeAll(async () => {
    writeTinyVisionModel(folder, { family });
    const [one, two] = await Promise.all([tinyPicture(1), tinyPicture(2, 8, 8)]);
    const parts = { sampling: { numLogprobs: 1 }, stop: { maxTokens: 3 } };
    requests = await imageRequests(folder, [
      { text: `What is in ${mark}?`, files: [one], numPromptLogprobs: 0, ...parts },
      { text: `What is in ${mark}?`, files: [two], ...parts },
    ]);
  });
  async function start(device: EngineConfig['device'], options: Partial<EngineConfig> = {}) {
    const config = { ...ENGINE_DEFAULTS, modelPath: folder, device, kvCacheMemoryBytes: 2 ** 20 };
    return opened(await EngineCore.start({ ...config, dtype: 'bfloat16', ...options }));
  }

  it(
    'an answer is the same however its prompt is cut, and that of a processor',
    needsCudaEmulator,
    async () => {
      const cuda = generate(await start('cuda'), requests);
      const chunked = await start('cuda', { maxNumBatchedTokens: 11, maxNumSeqs: 2 });
      expect(generate(chunked, requests, [0, 2])).toEqual(cuda);
      for (const [id, { tokenIds, promptNumbers }] of generate(await start('cpu'), requests)) {
        expect(cuda.get(id)!.tokenIds).toEqual(tokenIds);
        for (const [index, number] of cuda.get(id)!.promptNumbers.entries()) {
          if (!Number.isInteger(number)) expect(Math.abs(number - promptNumbers[index]!)).toBeLessThan(0.1);
        }
      }
    },
  );

  it('a draft model of its kind guesses beside it', needsCudaEmulator, async () => {
    const speculative = { method: 'draft_model', model: folder, numSpeculativeTokens: 2 } as const;
    const cuda = generate(await start('cuda'), requests);
    expect(generate(await start('cuda', { speculative }), requests)).toEqual(cuda);
  });

  it.each([
    ['ranks', { tensorParallelSize: 2 }],
    ['stages', { pipelineParallelSize: 2 }],
  ] as const)('an answer of two %s is that of one', needsSeveralGpus, async (_, options) => {
    emulateGpus(2);
    const one = generate(await start('cuda'), requests);
    expect(generate(await start('cuda', options), requests)).toEqual(one);
  });
});

it.each([
  ['gemma3', IMAGE_TOKENS],
  ['gemma4', MOST_TOKENS],
])(
  'an answer about images that are seen whole is the same where a step ends at each, of %s',
  needsCudaEmulator,
  async (name, mostTokens) => {
    const modelPath = newFolder();
    copyForEngine(name, modelPath);
    const parts = { sampling: { numLogprobs: 1 }, stop: { maxTokens: 3 } };
    const prompts = [
      requestOf(0, 40, [[9, 0]], parts),
      requestOf(
        1,
        96,
        [
          [2, 0],
          [30, 1],
          [60, 2],
        ],
        { ...parts, numPromptLogprobs: 0 },
      ),
      requestOf(2, 60, [[9, 0]], parts),
    ];
    const start = async (device: EngineConfig['device'], options: Partial<EngineConfig> = {}) => {
      const config = { ...ENGINE_DEFAULTS, modelPath, device, kvCacheMemoryBytes: 2 ** 20 };
      return opened(await EngineCore.start({ ...config, dtype: 'bfloat16', ...options }));
    };
    const cuda = generate(await start('cuda'), prompts);
    const chunked = await start('cuda', { maxNumBatchedTokens: mostTokens + 2, maxNumSeqs: 2 });
    expect(generate(chunked, prompts, [0, 2, 9])).toEqual(cuda);
    const cpu = generate(await start('cpu'), prompts);
    for (const [index, number] of cpu.get(1)!.promptNumbers.entries()) {
      if (!Number.isInteger(number))
        expect(Math.abs(cuda.get(1)!.promptNumbers[index]! - number)).toBeLessThan(0.1);
    }
  },
);
