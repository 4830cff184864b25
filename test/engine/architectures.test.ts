// What a request gets back depends on the request alone, for every architecture: alone, among others, in chunks, and where the
// cache holds the beginning of its prompt.

import { describe, expect, it } from 'vitest';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';
import { architectureGoldens } from '../models/golden-cases.ts';

const DEVICE = availableBackends.find((backend) => backend === 'cpu') ?? 'reference';
const MAX_TOKENS = 8;
const GREEDY = { temperature: 0, numLogprobs: null };

function requestOf(id: number, promptTokenIds: readonly number[]): NewRequest {
  return newRequest({
    id,
    promptTokenIds: [...promptTokenIds],
    sampling: { temperature: 0.7, seed: 3, numLogprobs: 2 },
    stop: { maxTokens: MAX_TOKENS },
  });
}

describe('greedy answers are those of the original implementation, in one batch in chunks of 7', () => {
  it.each(architectureGoldens())('with $name', async ({ folder, cases }) => {
    const options = { device: DEVICE, dtype: 'float32', kvCacheMemoryBytes: 2 ** 20 } as const;
    const limits = { maxNumBatchedTokens: 7, maxNumSeqs: 3 };
    const core = await EngineCore.start({ ...ENGINE_DEFAULTS, modelPath: folder, ...options, ...limits });
    const requests = cases.map(({ ids, greedyIds }, id) =>
      newRequest({ id, promptTokenIds: ids, sampling: GREEDY, stop: { maxTokens: greedyIds.length } }),
    );
    const answers = generate(core, requests);
    for (const [id, { greedyIds }] of cases.entries()) expect(answers.get(id)!.tokenIds).toEqual(greedyIds);
    core.close();
  });
});

describe('a request gets the same alone, among others in chunks of 7, and from the cache', () => {
  it.each(architectureGoldens())('with $name', async ({ folder, cases }) => {
    const start = (options: object) =>
      EngineCore.start({
        ...ENGINE_DEFAULTS,
        modelPath: folder,
        device: DEVICE,
        kvCacheMemoryBytes: 2 ** 20,
        ...options,
      });
    const prompts = cases.map(({ ids }) => ids);
    const long = prompts.find(({ length }) => length > 32)!;
    const requests = [...prompts, long.toReversed(), long.slice(3)].map((ids, id) => requestOf(id, ids));
    const alone = await start({ enablePrefixCaching: false });
    const chunked = await start({ maxNumBatchedTokens: 7, maxNumSeqs: 3 });
    const expected = requests.map((one) => generate(alone, [one]).get(one.id)!);
    expect(new Set(expected.map(({ numbers }) => String(numbers))).size).toBe(requests.length);
    for (const { tokenIds } of expected) expect(tokenIds).toHaveLength(MAX_TOKENS);
    expect([...generate(chunked, requests).values()]).toEqual(expected);
    let numCachedTokens = 0;
    const again = generate(chunked, requests, [], (numTokens) => {
      numCachedTokens += numTokens;
    });
    expect([...again.values()]).toEqual(expected);
    expect(numCachedTokens).toBeGreaterThan(0);
    for (const core of [alone, chunked]) core.close();
  });
});
