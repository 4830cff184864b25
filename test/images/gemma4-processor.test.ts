// How many tokens an image of Gemma 4 becomes, and what is refused.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import type { GivenFields } from '../../src/images/given-fields.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { imageModel } from './image-model.ts';
import { noise } from './noise.ts';

const folder = temporaryFolders();

interface Files {
  readonly vision?: object;
  readonly text?: object;
  readonly images?: object;
}

/** Patches of two by two pixels, of which two by two are a token. */
const SMALL = { patch_size: 2, pooling_kernel_size: 2 };

function load({ vision = SMALL, text = {}, images = {} }: Files = {}, given: GivenFields = {}) {
  const architectures = ['Gemma4ForConditionalGeneration'];
  const config = { architectures, vision_config: vision, text_config: text };
  return loadImageProcessor(imageModel(folder(), { config, images }), given)!;
}

describe('images of Gemma 4', () => {
  it('are one tile, and as many placeholders as tokens between two others', async () => {
    const processor = load({ images: { max_soft_tokens: 70 } });
    expect(processor).toMatchObject({ mark: '<|image|>', placeholder: '<|image|>', mostPatches: 280 });
    const { image, text } = await processor.read(await noise(24, 16));
    expect(image.tiles.map(({ rows, cols, patches }) => [rows, cols, patches.length])).toEqual([
      [12, 20, 12 * 20 * 3 * 2 * 2],
    ]);
    expect(image.numTokens).toBe(60);
    expect(text).toBe(`<|image>${'<|image|>'.repeat(60)}<image|>`);
  });

  it('have numbers from -1 to 1', async () => {
    const { colours } = (await load().read(await noise(8, 8))).image;
    expect(colours.offsets).toEqual([-1, -1, -1]);
    for (const factor of colours.factors) expect(factor).toBeCloseTo(2 / 255, 12);
  });

  it.each<[string, Files, GivenFields, number]>([
    ['as is usual', {}, {}, 280],
    ['by the files', { images: { max_soft_tokens: 140 } }, {}, 140],
    ['by the option before the files', { images: { max_soft_tokens: 140 } }, { max_soft_tokens: 560 }, 560],
  ])('have so many tokens at most %s', async (_, files, given, most) => {
    const processor = load(files, given);
    expect(processor.mostPatches).toBe(most * 4);
    const { numTokens } = (await processor.read(await noise(50, 50))).image;
    expect(numTokens).toBe(Math.floor(Math.sqrt(most)) ** 2);
  });

  it('have at least one token and at most as many as that, whatever form they have', async () => {
    const processor = load({ images: { max_soft_tokens: 70 } });
    const side = fc.oneof(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 900 }));
    await fc.assert(
      fc.asyncProperty(side, side, async (width, height) => {
        const { tiles, numTokens } = (await processor.read(await noise(width, height))).image;
        const { rows, cols } = tiles[0]!;
        expect([rows % 2, cols % 2, (rows * cols) / 4]).toEqual([0, 0, numTokens]);
        expect(numTokens).toBeGreaterThan(0);
        expect(numTokens).toBeLessThanOrEqual(70);
      }),
      { numRuns: 40 },
    );
  });

  it.each<[string, Files, string]>([
    [
      'another number of tokens',
      { images: { max_soft_tokens: 256 } },
      'preprocessor_config.json: max_soft_tokens must be',
    ],
    ['images of their own sizes', { images: { do_resize: false } }, 'do_resize must be true'],
    [
      'patches of another size',
      { images: { patch_size: 16 } },
      'patch_size and pooling_kernel_size are not those of vision_config',
    ],
    [
      'fewer positions than patches of a line',
      { vision: { ...SMALL, position_embedding_size: 500 } },
      'max_soft_tokens is 280, but the narrowest image would be longer than the 500 patches of position_embedding_size of',
    ],
    [
      'windows that an image does not fit into',
      { text: { use_bidirectional_attention: 'vision', sliding_window: 279 } },
      'max_soft_tokens is 280, but tokens of an image see each other in the 279 of sliding_window of',
    ],
  ])('are not served with %s', (_, files, message) => {
    expect(() => load(files)).toThrow(ModelLoadError);
    expect(() => load(files)).toThrow(message);
  });

  it('may be larger than windows where each token sees only those before it', () => {
    expect(load({ text: { sliding_window: 16 } }).mostPatches).toBe(1120);
  });

  it.each<[GivenFields, string]>([
    [{ max_soft_tokens: 100 }, 'max_soft_tokens must be'],
    [
      { max_pixels: 100 },
      'the JSON has no field max_pixels; this model takes max_soft_tokens (70, 140, 280, 560, 1120)',
    ],
    [
      { max_soft_tokens: 560 },
      'max_soft_tokens is 560, but tokens of an image see each other in the 512 of sliding_window',
    ],
  ])('take nothing else of --mm-processor-kwargs: %j', (given, message) => {
    const files = { text: { use_bidirectional_attention: 'vision' } };
    expect(() => load(files, given)).toThrow(ConfigError);
    expect(() => load(files, given)).toThrow(`--mm-processor-kwargs: ${message}`);
  });
});
