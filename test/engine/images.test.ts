// Images in prompts: what an answer is depends on them, and on nothing else that is computed.

import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { readModelText } from '../../src/engine/model-text.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import {
  specialTokens,
  TINY_VOCAB_SIZE,
  tinyTokenizer,
  tinyTokenizerConfig,
} from '../fixtures/tiny-tokenizer.ts';
import { TINY_TILE_TOKENS, tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { copyForEngine } from '../models/vision-cases.ts';

const newFolder = temporaryFolders();
let folder: string;
let pictures: Uint8Array[];
beforeAll(async () => {
  folder = newFolder();
  writeTinyVisionModel(folder);
  pictures = await Promise.all([1, 2, 3].map((seed) => tinyPicture(seed)));
});

async function start(options: Partial<EngineConfig> = {}): Promise<InferenceEngine> {
  const config = {
    ...ENGINE_DEFAULTS,
    modelPath: folder,
    device: 'cpu',
    kvCacheMemoryBytes: 8 * 2 ** 20,
  } as const;
  return await InferenceEngine.start({ ...config, ...options });
}

const params = resolveSamplingParams({ max_tokens: 12, logprobs: 2, ignore_eos: true, temperature: 0 });

/** The tokens of an answer with their log-probabilities, and how much of the prompt was cached. */
async function ask(engine: InferenceEngine, text: string, images: readonly Uint8Array[]) {
  const prepared = await engine.prepare({ text, images }, params);
  const numbers: unknown[] = [];
  let cached = 0;
  for await (const { tokenIds, logprobs, ...delta } of engine.generate(prepared)) {
    numbers.push(...tokenIds, ...(logprobs ?? []).map(({ logprob }) => logprob));
    cached = Math.max(cached, delta.numCachedTokens);
  }
  return { numbers: JSON.stringify(numbers), cached, prepared };
}

const TEXT = 'What is in <image>? The picture shows the first and the second thing.';
const TWO = 'First <image> and then <image>: what is the other one of the two?';

describe('images in prompts', () => {
  let engine: InferenceEngine;
  beforeAll(async () => {
    engine = await start();
  });
  afterAll(() => engine.close());

  it('take a token for each row of their tiles', async () => {
    const { prepared } = await ask(engine, TEXT, [pictures[0]!]);
    const [image] = prepared.images!;
    // Two by two tiles, and the whole.
    expect(image!.image.tiles).toHaveLength(5);
    expect(image!.positions).toHaveLength(5 * TINY_TILE_TOKENS);
  });

  it('change the answer', async () => {
    const answers = await Promise.all(pictures.map((picture) => ask(engine, TEXT, [picture])));
    expect(new Set(answers.map(({ numbers }) => numbers)).size).toBe(3);
    const [one, two] = pictures;
    expect((await ask(engine, TWO, [one!, two!])).numbers).not.toBe(
      (await ask(engine, TWO, [two!, one!])).numbers,
    );
  });

  it('are found in the prefix cache by what they show', async () => {
    const text = `Once more: ${TEXT}`;
    const [one, two] = await Promise.all([tinyPicture(4), tinyPicture(5)]);
    const first = await ask(engine, text, [one]);
    const again = await ask(engine, text, [one]);
    const other = await ask(engine, text, [two]);
    expect(first.cached).toBeLessThanOrEqual(16);
    expect(again.cached).toBeGreaterThan(32);
    expect(again.numbers).toBe(first.numbers);
    expect(other.cached).toBeLessThanOrEqual(16);
  });

  it.each([
    ['on two ranks', { tensorParallelSize: 2 }],
    ['in two stages', { pipelineParallelSize: 2 }],
    [
      'on two ranks that see a layer a step',
      { tensorParallelSize: 2, maxNumBatchedTokens: 1, maxNumSeqs: 1 },
    ],
    ['by two engines', { dataParallelSize: 2 }],
  ] as const)('give the same bits %s', async (_, options) => {
    const other = await start(options);
    try {
      const asked = [
        [TWO, [pictures[0]!, pictures[1]!]],
        [TEXT, [pictures[2]!]],
        [TWO, [pictures[2]!, pictures[1]!]],
      ] as const;
      const answers = await Promise.all(asked.map(([text, images]) => ask(other, text, images)));
      for (const [index, [text, images]] of asked.entries()) {
        expect(answers[index]!.numbers).toBe((await ask(engine, text, images)).numbers);
      }
    } finally {
      await other.close();
    }
  });

  it('are seen by steps that do nothing else', async () => {
    const options = {
      loadFormat: 'dummy',
      hfOverrides: { vision_config: { num_hidden_layers: 5 } },
    } as const;
    const [usual, slow] = [
      await start(options),
      await start({ ...options, maxNumBatchedTokens: 1, maxNumSeqs: 1 }),
    ];
    try {
      const [expected, answer] = [
        await ask(usual, TEXT, [pictures[0]!]),
        await ask(slow, TEXT, [pictures[0]!]),
      ];
      expect(answer.numbers).toBe(expected.numbers);
    } finally {
      await Promise.all([usual.close(), slow.close()]);
    }
  });

  it.each([
    ['a mark too few', 'no mark', 1, /0 marks of images \(<image>\) for 1 images/],
    ['a mark too many', '<image> and <image>', 1, /2 marks of images \(<image>\) for 1 images/],
  ])('are refused with %s', async (_, text, count, message) => {
    await expect(engine.prepare({ text, images: pictures.slice(0, count) }, params)).rejects.toThrow(message);
  });

  it('are refused where they are no images', async () => {
    await expect(engine.prepare({ text: TEXT, images: [Buffer.from('hello')] }, params)).rejects.toThrow(
      /PNG/,
    );
  });
});

describe('images are not taken, and nothing else is refused,', () => {
  async function read(modelPath: string, options: Partial<EngineConfig> = {}) {
    const warnings: string[] = [];
    const onWarning = (message: string): void => void warnings.push(message);
    const text = await readModelText({ ...ENGINE_DEFAULTS, modelPath, ...options }, onWarning);
    await Promise.all([text.imageInputs?.close(), text.tokenizer?.close()]);
    return { takesImages: text.imageInputs !== null, warnings };
  }

  function changed(change: (folder: string) => void): string {
    const copy = newFolder();
    cpSync(folder, copy, { recursive: true });
    change(copy);
    return copy;
  }

  it('but where all that they need is there', async () => {
    expect(await read(folder)).toEqual({ takesImages: true, warnings: [] });
  });

  it('where no file says how they are made ready', async () => {
    const bare = changed((copy) => rmSync(join(copy, 'preprocessor_config.json')));
    const { takesImages, warnings } = await read(bare);
    expect(takesImages).toBe(false);
    expect(warnings).toEqual([
      expect.stringMatching(/ has no preprocessor_config\.json: images are refused/),
    ]);
  });

  it('and what --mm-processor-kwargs says of them is checked', async () => {
    const edge = (longest_edge: number) => ({ mmProcessorKwargs: { size: { longest_edge } } });
    expect(await read(folder, edge(1))).toEqual({ takesImages: true, warnings: [] });
    await expect(read(folder, edge(1e6))).rejects.toThrow(
      /--mm-processor-kwargs: size\.longest_edge must be at most/,
    );
    // Where no image is taken, nothing of it matters.
    expect(await read(folder, { ...edge(1e6), maxImages: 0 })).toEqual({ takesImages: false, warnings: [] });
  });

  it('where the tokenizer has no token for them', async () => {
    const { takesImages, warnings } = await read(
      changed((copy) => writeFileSync(join(copy, 'tokenizer.json'), JSON.stringify(tinyTokenizer()))),
    );
    expect(takesImages).toBe(false);
    expect(warnings).toEqual([expect.stringMatching(/ has no token <image> in its tokenizer: images are/)]);
  });

  it.each<[string, Partial<EngineConfig>]>([
    ['where none may come', { maxImages: 0 }],
    ['where embeddings are made', { runner: 'pooling' }],
    ['without a tokenizer', { skipTokenizerInit: true }],
  ])('%s, whatever their files say', async (_, options) => {
    const wrong = changed((copy) =>
      writeFileSync(join(copy, 'preprocessor_config.json'), '{"max_image_size": {"longest_edge": 99}}'),
    );
    await expect(read(wrong)).rejects.toThrow(/longest_edge is 99/);
    expect(await read(wrong, options)).toEqual({ takesImages: false, warnings: [] });
  });
});

describe('a chat template that knows no images', () => {
  const source = '{% for m in messages %}{{ m.content | trim }}{% endfor %}';
  const messages = [
    { role: 'user', content: [{ type: 'image' }, { type: 'text', text: 'What is it?' }] },
  ] as const;

  async function render(modelPath: string): Promise<string> {
    const chatTemplate = join(modelPath, 'texts-only.jinja');
    writeFileSync(chatTemplate, source);
    const config = { ...ENGINE_DEFAULTS, modelPath, chatTemplate };
    const text = await readModelText(config);
    try {
      return await text.chatTemplate!.render(messages, { addGenerationPrompt: false });
    } finally {
      await text.chatTemplate!.close();
      await text.tokenizer!.close();
      await text.imageInputs!.close();
    }
  }

  it('has a line for each where that is all that the model wants', async () => {
    const seeing = newFolder();
    copyForEngine('internvl', seeing);
    const { added_tokens, ...rest } = tinyTokenizer();
    const added = [...added_tokens, ...specialTokens(['<IMG_CONTEXT>', '<img>', '</img>'], TINY_VOCAB_SIZE)];
    writeFileSync(join(seeing, 'tokenizer.json'), JSON.stringify({ ...rest, added_tokens: added }));
    writeFileSync(join(seeing, 'tokenizer_config.json'), JSON.stringify(tinyTokenizerConfig(512)));
    expect(await render(seeing)).toBe('<IMG_CONTEXT>\nWhat is it?');
  });

  it('takes none with other models', async () => {
    await expect(render(folder)).rejects.toThrow(/has an image, and the chat template writes none/);
  });
});
