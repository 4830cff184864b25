// Where some layers have a window and others see everything, a sequence keeps all blocks of these alone, and answers as if it
// kept all blocks of all layers.

import { describe, expect, it } from 'vitest';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { type Answer, generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';
import { architectureGoldens, type GoldenModel } from '../models/golden-cases.ts';

const DEVICE = availableBackends.find((backend) => backend === 'cpu') ?? 'reference';
const BLOCK = 16;
const LONGEST = 512;
const STEP = 32;
/** Five layers with a window of 24 tokens to one without: six groups of one layer each. */
const LAYERS = ['sliding', 'sliding', 'full', 'sliding', 'sliding', 'sliding'];
const OVERRIDES = {
  num_hidden_layers: LAYERS.length,
  layer_types: LAYERS.map((kind) => `${kind}_attention`),
  sliding_window: 24,
  max_position_embeddings: LONGEST,
};
/** The same in chunks of 24 tokens. */
const IN_CHUNKS = {
  ...OVERRIDES,
  layer_types: LAYERS.map((kind) => (kind === 'full' ? 'full_attention' : 'chunked_attention')),
  no_rope_layers: LAYERS.map((kind) => (kind === 'full' ? 0 : 1)),
  attention_chunk_size: 24,
};
/** Of one layer: two heads of 8 numbers in bfloat16. */
const BLOCK_BYTES = 2 * BLOCK * 2 * 8 * 2;
/** What one request of the longest length takes: all blocks of one layer, and a window, a step and a block of five others. */
const FEWEST_BLOCKS = LONGEST / BLOCK + 5 * (Math.ceil((24 - 1 + STEP) / BLOCK) + 1);

const models = architectureGoldens().filter(({ name }) =>
  ['gemma3', 'gpt-oss', 'llama4-text'].includes(name),
);

function start(
  { name, folder: modelPath }: GoldenModel,
  device: 'cpu' | 'reference',
  numBlocks: number,
  options: object = {},
) {
  return EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath,
    device,
    loadFormat: 'dummy',
    hfOverrides: name === 'llama4-text' ? IN_CHUNKS : OVERRIDES,
    maxNumBatchedTokens: STEP,
    maxNumSeqs: 4,
    kvCacheMemoryBytes: numBlocks * BLOCK_BYTES,
    ...options,
  });
}

function requestOf(id: number, length: number, maxTokens: number, first = id): NewRequest {
  return newRequest({
    id,
    promptTokenIds: Array.from({ length }, (_, i) => 3 + ((first * 13 + i * 5 + (i >> 4)) % 80)),
    sampling: { temperature: 0.8, seed: id, numLogprobs: 2 },
    stop: { maxTokens },
  });
}

function answerTo(core: EngineCore, request: NewRequest): Answer {
  return generate(core, [request]).get(request.id)!;
}

describe.each(models)('$name', (model) => {
  it.each(availableBackends)(
    'answers a request of the longest length with a sixth of the blocks, and never gives way, on %s',
    async (device) => {
      const tight = await start(model, device, FEWEST_BLOCKS, { enablePrefixCaching: false });
      const roomy = await start(model, device, 6 * (LONGEST / BLOCK), { maxNumBatchedTokens: LONGEST });
      const request = requestOf(1, device === 'cpu' ? 460 : 150, 20);
      const expected = answerTo(roomy, request);
      expect(expected.tokenIds).toHaveLength(20);
      expect(answerTo(tight, request)).toEqual(expected);
      expect(tight.stats).toMatchObject({ preemptions: 0, freeBlocks: FEWEST_BLOCKS });
      for (const core of [tight, roomy]) core.close();
    },
  );

  it('answers requests together as alone, also where they give way, share beginnings and verify drafts', async () => {
    const speculative = { method: 'ngram', numSpeculativeTokens: 3, promptLookupMax: 3, promptLookupMin: 1 };
    const tight = await start(model, DEVICE, FEWEST_BLOCKS, { speculative });
    const roomy = await start(model, DEVICE, 24 * (LONGEST / BLOCK));
    const requests = [
      requestOf(1, 300, 40),
      requestOf(2, 20, 90),
      requestOf(3, 300, 40, 1),
      requestOf(4, 330, 30, 1),
      requestOf(5, 7, 60),
      requestOf(6, 200, 60),
    ];
    const expected = requests.map((one) => answerTo(roomy, one));
    expect([...generate(tight, requests, [0, 0, 20, 35]).values()]).toEqual(expected);
    expect(tight.stats.preemptions).toBeGreaterThan(0);
    expect(tight.stats.freeBlocks).toBe(FEWEST_BLOCKS);
    for (const core of [tight, roomy]) core.close();
  });

  it.each([20, 40, 200])(
    'finds a beginning of %i tokens that an earlier request left behind',
    async (shared) => {
      const core = await start(model, DEVICE, 24 * (LONGEST / BLOCK));
      const plain = await start(model, DEVICE, 24 * (LONGEST / BLOCK), { enablePrefixCaching: false });
      const [earlier, later] = [requestOf(1, 260, 5), requestOf(2, 250, 5)];
      const promptTokenIds = [
        ...earlier.promptTokenIds.slice(0, shared),
        ...later.promptTokenIds.slice(shared),
      ];
      answerTo(core, earlier);
      let numCached = 0;
      const request = { ...later, promptTokenIds };
      const answers = generate(core, [request], [], (numTokens) => {
        numCached = numTokens;
      });
      expect(numCached).toBe(Math.floor(shared / BLOCK) * BLOCK);
      expect(answers.get(2)).toEqual(answerTo(plain, request));
      for (const one of [core, plain]) one.close();
    },
  );
});
