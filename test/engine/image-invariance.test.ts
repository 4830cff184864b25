// What is answered about images follows from them and the prompt alone, whatever else an engine does.

import { beforeAll, describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { adapterKeys } from '../../src/kv-cache/prefix-hash.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { TINY_FAMILIES, tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { type Answer, generate } from '../helpers/generate.ts';
import { imageRequests } from '../helpers/image-requests.ts';
import { newRequest } from '../helpers/new-request.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { casesOf, copyForEngine, MODELS, MOST_TOKENS } from '../models/vision-cases.ts';

const newFolder = temporaryFolders();
const opened = closedAfterwards();

async function start(modelPath: string, options: Partial<EngineConfig> = {}): Promise<EngineCore> {
  const config = { ...ENGINE_DEFAULTS, modelPath, kvCacheMemoryBytes: 2 ** 21 };
  return opened(await EngineCore.start({ ...config, ...options }));
}

const FAMILIES = (['SmolVLM', 'Qwen3-VL'] as const).map((family) => ({ family, ...TINY_FAMILIES[family] }));

describe.each(FAMILIES)('answers of a $family about images are the same', ({ family, mark }) => {
  const [folder, draftFolder, adapterFolder] = [newFolder(), newFolder(), newFolder()];
  const SEEN = `What is in ${mark}? The picture shows one thing.`;
  const COMPARED = `First ${mark} and then ${mark}: what is the other one of the two?`;
  let requests: NewRequest[];
  let expected: Map<number, Answer>;

  beforeAll(async () => {
    writeTinyVisionModel(folder, { family });
    writeTinyVisionModel(draftFolder, { family, config: { num_hidden_layers: 2 } });
    writeTinyAdapter(adapterFolder, {
      projections: { 'self_attn.q_proj': [64, 64], 'mlp.up_proj': [112, 64] },
    });
    const [one, two, small] = await Promise.all([tinyPicture(1), tinyPicture(2), tinyPicture(3, 8, 8)]);
    const greedy = { sampling: { numLogprobs: 2 }, stop: { maxTokens: 40 } };
    const drawn = { sampling: { temperature: 1, seed: 4, numLogprobs: 1 }, stop: { maxTokens: 20 } };
    requests = await imageRequests(folder, [
      { text: COMPARED, files: [one, two], ...greedy },
      { text: COMPARED, files: [two, one], ...greedy },
      { text: SEEN, files: [one], numPromptLogprobs: 1, ...drawn },
      { text: SEEN, files: [two], ...drawn },
      { text: SEEN, files: [small], ...greedy },
      { text: 'the first and the second thing', files: [], ...greedy },
    ]);
    const core = await start(folder, { enablePrefixCaching: false });
    expected = new Map(requests.flatMap((request) => [...generate(core, [request])]));
  });

  it('of which no two are alike', () => {
    expect(new Set([...expected.values()].map(({ numbers }) => JSON.stringify(numbers))).size).toBe(
      requests.length,
    );
  });

  it.each<[string, Partial<EngineConfig>]>([
    ['side by side', {}],
    ['in chunks', { maxNumBatchedTokens: 9, maxNumSeqs: 3 }],
    ['token by token', { maxNumBatchedTokens: 1, maxNumSeqs: 1 }],
    ['in blocks of another size', { blockSize: 32 }],
  ])('%s', async (_, options) => {
    const core = await start(folder, options);
    expect(generate(core, requests, [0, 1, 1, 2, 9, 4])).toEqual(expected);
    // Now much of them is in the cache.
    expect(generate(core, requests, [0, 3, 1, 2])).toEqual(expected);
    expect(core.stats.prefixCacheHits).toBeGreaterThan(100);
  });

  it('where requests lose their blocks in the middle of an image, and begin again', async () => {
    const core = await start(folder, {
      kvCacheMemoryBytes: 2 ** 18,
      maxModelLen: 256,
      maxNumBatchedTokens: 30,
    });
    expect(generate(core, requests)).toEqual(expected);
    expect(core.stats.preemptions).toBeGreaterThan(0);
  });

  it.each(['ngram', 'draft model'])('with tokens that are guessed by a %s', async (method) => {
    const ngram = { method: 'ngram', promptLookupMax: 3, promptLookupMin: 1 } as const;
    const guess = method === 'ngram' ? ngram : ({ method: 'draft_model', model: draftFolder } as const);
    const core = await start(folder, { speculative: { ...guess, numSpeculativeTokens: 4 } });
    // One after the other, for there are no guesses where many run.
    expect(generate(core, requests, [0, 45, 90, 135, 180, 225])).toEqual(expected);
    expect(core.stats.speculation?.acceptedTokens).toBeGreaterThan(5);
  });

  it('with weights in int8, however they are cut', async () => {
    const whole = generate(await start(folder, { quantization: 'int8' }), requests);
    expect(whole.get(0)).not.toEqual(expected.get(0));
    expect(
      generate(await start(folder, { quantization: 'int8', maxNumBatchedTokens: 40 }), requests),
    ).toEqual(whole);
  });

  it('beside others with an adapter, which changes its own', async () => {
    const modules = [{ name: 'a', path: adapterFolder, baseModelName: null }];
    const core = await start(folder, { lora: { modules, maxLoras: 1, maxLoraRank: 16 } });
    const keys = adapterKeys(core.executor.adapters[0]!.digest);
    const adapted = requests.map((request) => ({
      ...request,
      id: request.id + requests.length,
      adapterId: 0,
      extraKeys: [...keys, ...request.extraKeys],
    }));
    const answers = generate(core, [...requests, ...adapted]);
    for (const { id } of requests) {
      expect(answers.get(id)).toEqual(expected.get(id));
      expect(answers.get(id + requests.length)!.numbers).not.toEqual(expected.get(id)!.numbers);
    }
  });
});

/** The smallest of models whose steps compute whole images. */
const CHUNKS_OF_WHOLE_IMAGES: Readonly<Record<string, Partial<EngineConfig>>> = {
  gemma3: { maxNumBatchedTokens: 17, maxNumSeqs: 2 },
  gemma4: { maxNumBatchedTokens: MOST_TOKENS + 1, maxNumSeqs: 2 },
};

describe.each(MODELS)('log-probabilities of prompts with images are those of another program: %s', (name) => {
  const modelPath = newFolder();
  beforeAll(() => {
    copyForEngine(name, modelPath);
  });
  const cases = casesOf(name);

  it.each<[string, Partial<EngineConfig>]>([
    ['whole', {}],
    ['in chunks', CHUNKS_OF_WHOLE_IMAGES[name] ?? { maxNumBatchedTokens: 5 }],
  ])('%s', async (_, options) => {
    const core = await start(modelPath, { device: 'reference', dtype: 'float32', ...options });
    const answers = generate(
      core,
      cases.map(({ ids, greedy, images }, id) =>
        newRequest({
          id,
          promptTokenIds: ids,
          images,
          numPromptLogprobs: 0,
          stop: { maxTokens: greedy.length },
        }),
      ),
    );
    for (const [id, { ids, logits, greedy }] of cases.entries()) {
      expect(answers.get(id)!.tokenIds).toEqual(greedy);
      const [rows, vocabSize] = [logits.shape[0]!, logits.shape[1]!];
      // Of each token its id, its log-probability and its rank.
      const numbers = answers.get(id)!.promptNumbers;
      expect(numbers).toHaveLength(3 * (ids.length - 1));
      for (let row = 0; row < rows - 1; row++) {
        const place = ids.length - rows + row + 1;
        const logit = logits.values.subarray(row * vocabSize, (row + 1) * vocabSize);
        const sum = logit.reduce((total, one) => total + Math.exp(one), 0);
        expect(numbers[3 * (place - 1)]).toBe(ids[place]);
        expect(numbers[3 * (place - 1) + 1]).toBeCloseTo(logit[ids[place]!]! - Math.log(sum), 3);
      }
    }
  });
});
