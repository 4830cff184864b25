// Where every layer has a window, a sequence keeps only the blocks that can still be seen, and answers as if it kept all.

import { expect, it } from 'vitest';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';
import { ownGoldens } from '../models/golden-cases.ts';

/** A window of 7 tokens, contexts of up to 64: four blocks. */
const { folder } = ownGoldens().find(({ name }) => name === 'mistral-sliding')!;

it.each(availableBackends)(
  'four sequences of four blocks each run together in eight, and none has to give way, on %s',
  async (device) => {
    const start = (kvCacheMemoryBytes: number) =>
      EngineCore.start({ ...ENGINE_DEFAULTS, modelPath: folder, device, kvCacheMemoryBytes });
    const roomy = await start(2 ** 16);
    const numBlocks = roomy.stats.numBlocks;
    expect(numBlocks).toBeGreaterThanOrEqual(16);
    const tight = await start(8 * Math.ceil(2 ** 16 / numBlocks));
    expect(tight.stats.numBlocks).toBe(8);
    const requests = Array.from({ length: 4 }, (_, id) =>
      newRequest({
        id,
        promptTokenIds: Array.from({ length: 9 }, (_, i) => 3 + ((id * 13 + i * 5) % 40)),
        sampling: { temperature: 0.8, seed: id, numLogprobs: 1 },
        stop: { maxTokens: 55 },
      }),
    );
    const together = generate(tight, requests);
    for (const one of requests) expect(together.get(one.id)).toEqual(generate(roomy, [one]).get(one.id));
    expect(together.get(0)!.tokenIds).toHaveLength(55);
    expect(tight.stats).toMatchObject({ preemptions: 0, freeBlocks: 8 });
    for (const core of [roomy, tight]) core.close();
  },
);
