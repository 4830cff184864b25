// Images whose tokens see each other: what is answered about them is the same wherever steps, the cache and other requests cut a prompt.

import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { ConfigError } from '../../src/errors.ts';
import { adapterKeys } from '../../src/kv-cache/prefix-hash.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { type Answer, generate } from '../helpers/generate.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { copyForEngine, MOST_TOKENS } from '../models/vision-cases.ts';
import { IMAGE_TOKENS, type Places, requestOf } from './whole-image-prompts.ts';

const newFolder = temporaryFolders();
const [folder, adapterFolder] = [newFolder(), newFolder()];
const opened = closedAfterwards();

beforeAll(() => {
  copyForEngine('gemma3', folder);
  writeTinyAdapter(adapterFolder, { projections: { 'self_attn.q_proj': [32, 32] } });
});

async function start(options: Partial<EngineConfig> = {}): Promise<EngineCore> {
  const config = { ...ENGINE_DEFAULTS, modelPath: folder, kvCacheMemoryBytes: 2 ** 20 };
  return opened(await EngineCore.start({ ...config, ...options }));
}

const greedy = { sampling: { numLogprobs: 2 }, stop: { maxTokens: 12 } };
const drawn = { sampling: { temperature: 1, seed: 4, numLogprobs: 1 }, stop: { maxTokens: 9 } };
const COMPARED: readonly Places[] = [
  [
    [2, 0],
    [30, 1],
    [60, 2],
  ],
  [
    [2, 0],
    [30, 2],
    [60, 1],
  ],
];
const REQUESTS = [
  requestOf(0, 40, [[9, 0]], greedy),
  requestOf(1, 60, [[9, 0]], greedy),
  requestOf(2, 60, [[9, 1]], drawn),
  requestOf(3, 96, COMPARED[0]!, { ...greedy, numPromptLogprobs: 1 }),
  requestOf(4, 96, COMPARED[1]!, greedy),
  requestOf(5, 17, [[1, 2]], drawn),
  requestOf(6, 50, [], greedy),
];

/** Each by itself, with nothing in the cache. */
async function aloneOf(requests: readonly NewRequest[], options: Partial<EngineConfig> = {}) {
  const core = await start({ ...options, enablePrefixCaching: false });
  return new Map(requests.flatMap((request) => [...generate(core, [request])]));
}

describe('answers about images that are seen whole are the same', () => {
  let expected: Map<number, Answer>;
  beforeAll(async () => {
    const config = { ...ENGINE_DEFAULTS, modelPath: folder, kvCacheMemoryBytes: 2 ** 20 };
    const core = await EngineCore.start({ ...config, enablePrefixCaching: false });
    expected = new Map(REQUESTS.flatMap((request) => [...generate(core, [request])]));
    core.close();
  });

  it('of which no two are alike', () => {
    const answers = [...expected.values()].map(({ numbers }) => JSON.stringify(numbers));
    expect(new Set(answers).size).toBe(REQUESTS.length);
  });

  it.each<[string, Partial<EngineConfig>]>([
    ['side by side', {}],
    ['in the smallest chunks', { maxNumBatchedTokens: IMAGE_TOKENS, maxNumSeqs: 1 }],
    ['in chunks beside others', { maxNumBatchedTokens: 21, maxNumSeqs: 5 }],
    ['in blocks of another size', { blockSize: 32, maxNumBatchedTokens: 30, maxNumSeqs: 8 }],
    ['on two ranks', { tensorParallelSize: 2 }],
    ['in two stages', { pipelineParallelSize: 2, maxNumBatchedTokens: 22, maxNumSeqs: 6 }],
  ])('%s', async (_, options) => {
    const core = await start(options);
    expect(generate(core, REQUESTS, [0, 1, 1, 2, 9, 4, 3])).toEqual(expected);
    // Now much of them is in the cache, and often up to the middle of an image.
    expect(generate(core, REQUESTS, [0, 3, 1, 2])).toEqual(expected);
    expect(core.stats.prefixCacheHits).toBeGreaterThan(200);
  });

  it('where requests lose their blocks, and begin again', async () => {
    const options = { maxNumBatchedTokens: 30, maxNumSeqs: 8, maxModelLen: 128 };
    const core = await start({ ...options, kvCacheMemoryBytes: 64 * 2 ** 10 });
    expect(generate(core, REQUESTS)).toEqual(expected);
    expect(core.stats.preemptions).toBeGreaterThan(0);
  });

  it('with tokens that are guessed', async () => {
    const method = { method: 'ngram', promptLookupMax: 2, promptLookupMin: 1 } as const;
    const core = await start({ speculative: { ...method, numSpeculativeTokens: 4 } });
    expect(generate(core, REQUESTS, [0, 30, 60, 90, 120, 150, 180])).toEqual(expected);
    expect(core.stats.speculation?.draftTokens).toBeGreaterThan(0);
  });

  it('beside others with an adapter, which changes its own', async () => {
    const modules = [{ name: 'a', path: adapterFolder, baseModelName: null }];
    const core = await start({ lora: { modules, maxLoras: 1, maxLoraRank: 16 } });
    const keys = adapterKeys(core.executor.adapters[0]!.digest);
    const adapted = REQUESTS.map((one) => ({
      ...one,
      id: one.id + REQUESTS.length,
      adapterId: 0,
      extraKeys: [...keys, ...one.extraKeys],
    }));
    const answers = generate(core, [...REQUESTS, ...adapted]);
    for (const { id } of REQUESTS) {
      expect(answers.get(id)).toEqual(expected.get(id));
      expect(answers.get(id + REQUESTS.length)!.numbers).not.toEqual(expected.get(id)!.numbers);
    }
  });
});

const anyPlaces = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: 2 })), { maxLength: 3 })
  .map((parts): Places => {
    let next = 0;
    return parts.map(([before, tile]) => {
      const at = next + before;
      next = at + IMAGE_TOKENS;
      return [at, tile] as const;
    });
  });

it('answers are those of requests alone, wherever images are and however steps are cut', async () => {
  const prompts = fc.array(fc.tuple(anyPlaces, fc.integer({ min: 1, max: 20 })), {
    minLength: 1,
    maxLength: 5,
  });
  const steps = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 0, max: 30 }));
  await fc.assert(
    fc.asyncProperty(prompts, steps, async (described, [maxNumSeqs, room]) => {
      const requests = described.map(([places, after], id) => {
        const length = (places.at(-1)?.[0] ?? 0) + IMAGE_TOKENS + after;
        return requestOf(id, length, places, { sampling: { numLogprobs: 1 }, stop: { maxTokens: 3 } });
      });
      const expected = await aloneOf(requests);
      const core = await start({ maxNumSeqs, maxNumBatchedTokens: IMAGE_TOKENS + maxNumSeqs - 1 + room });
      const arrivals = requests.map(({ id }) => 2 * id);
      expect(generate(core, requests, arrivals)).toEqual(expected);
      expect(generate(core, requests, arrivals)).toEqual(expected);
    }),
    { numRuns: 15 },
  );
});

describe('answers about images that see each other in windows alone are the same', () => {
  const modelPath = newFolder();
  let expected: Map<number, Answer>;
  beforeAll(async () => {
    copyForEngine('gemma4', modelPath);
    const core = await start({ modelPath, enablePrefixCaching: false });
    expected = new Map(REQUESTS.flatMap((request) => [...generate(core, [request])]));
  });

  it.each<[string, Partial<EngineConfig>]>([
    ['side by side', {}],
    ['in the smallest chunks', { maxNumBatchedTokens: MOST_TOKENS, maxNumSeqs: 1 }],
    ['in chunks beside others', { maxNumBatchedTokens: MOST_TOKENS + 4, maxNumSeqs: 5 }],
    ['on two ranks', { tensorParallelSize: 2 }],
    ['in two stages', { pipelineParallelSize: 2, maxNumBatchedTokens: MOST_TOKENS + 6, maxNumSeqs: 6 }],
  ])('%s', async (_, options) => {
    const core = await start({ modelPath, ...options });
    expect(generate(core, REQUESTS, [0, 1, 1, 2, 9, 4, 3])).toEqual(expected);
    expect(generate(core, REQUESTS, [0, 3, 1, 2])).toEqual(expected);
    expect(core.stats.prefixCacheHits).toBeGreaterThan(200);
  });

  it('and need as much room as the processor lets an image have', async () => {
    const options = { modelPath, maxNumBatchedTokens: MOST_TOKENS, maxNumSeqs: 2 };
    await expect(start(options)).rejects.toThrow(/the 70 tokens of an image .* raise it to 71, lower/);
  });
});

describe('steps without room for an image', () => {
  it.each([
    [
      { maxNumBatchedTokens: 15, maxNumSeqs: 2 },
      /raise it to 17, or leave images out with --limit-mm-per-prompt/,
    ],
    [
      { maxNumBatchedTokens: 20, maxNumSeqs: 8 },
      /the 16 tokens of an image .* raise it to 23, lower --max-num-seqs to 5, or/,
    ],
  ])('are refused at start: %o', async (options, message) => {
    await expect(start(options)).rejects.toThrow(ConfigError);
    await expect(start(options)).rejects.toThrow(message);
  });

  it('are taken where no image comes', async () => {
    const core = await start({ maxNumBatchedTokens: 5, maxNumSeqs: 2, maxImages: 0 });
    expect(generate(core, [REQUESTS[6]!]).get(6)!.tokenIds).toHaveLength(12);
  });
});
