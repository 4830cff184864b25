// How many patches an image of Qwen-VL has, whatever files and options say, and what is refused.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, InvalidRequestError, ModelLoadError } from '../../src/errors.ts';
import type { GivenFields } from '../../src/images/given-fields.ts';
import type { ImageTile } from '../../src/images/image-processor.ts';
import { MOST_PATCHES } from '../../src/images/image-processor.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { imageModel } from './image-model.ts';
import { noise } from './noise.ts';

const folder = temporaryFolders();

interface Files {
  readonly architecture?: string;
  readonly vision?: object;
  readonly images?: object;
}

/** Patches of two by two pixels, of which two by two are a token. */
const SMALL_VISION = { patch_size: 2, spatial_merge_size: 2 };

function load(
  { architecture = 'Qwen2VLForConditionalGeneration', vision = SMALL_VISION, images = {} }: Files,
  given: GivenFields = {},
) {
  const config = { architectures: [architecture], vision_config: vision };
  return loadImageProcessor(imageModel(folder(), { config, images }), given)!;
}

async function formOf(size: readonly [number, number], files: Files, given?: GivenFields): Promise<number[]> {
  const { tiles } = (await load(files, given).read(await noise(...size))).image;
  expect(tiles).toHaveLength(1);
  return [tiles[0]!.rows, tiles[0]!.cols];
}

function numPatches({ rows, cols }: ImageTile): number {
  return rows * cols;
}

describe('images of Qwen-VL', () => {
  it.each([
    'Qwen2VLForConditionalGeneration',
    'Qwen2_5_VLForConditionalGeneration',
    'Qwen3VLForConditionalGeneration',
    'Qwen3VLMoeForConditionalGeneration',
    'Qwen3_5ForConditionalGeneration',
    'Qwen3_5MoeForConditionalGeneration',
  ])('are one tile and as many placeholders as tokens, with %s', async (architecture) => {
    const processor = load({ architecture, images: { min_pixels: 16, max_pixels: 1024 } });
    expect([processor.mark, processor.placeholder]).toEqual(['<|image_pad|>', '<|image_pad|>']);
    const { image, text } = await processor.read(await noise(24, 16));
    expect(image.tiles.map(({ rows, cols, patches }) => [rows, cols, patches.length])).toEqual([
      [8, 12, 8 * 12 * 3 * 2 * 2],
    ]);
    expect(image.numTokens).toBe(24);
    expect(text).toBe('<|image_pad|>'.repeat(24));
  });

  it.each<[string, Files, GivenFields, [number, number]]>([
    ['by min_pixels and max_pixels', { images: { min_pixels: 16, max_pixels: 400 } }, {}, [6, 14]],
    ['by size', { images: { size: { shortest_edge: 16, longest_edge: 400 } } }, {}, [6, 14]],
    [
      'by min_pixels before size',
      { images: { min_pixels: 2000, size: { shortest_edge: 16, longest_edge: 1e6 } } },
      {},
      [16, 34],
    ],
    ['as is usual', {}, {}, [20, 42]],
    ['by the option before the files', { images: { max_pixels: 1e6 } }, { max_pixels: 400 }, [6, 14]],
    ['by size of the option', { images: { max_pixels: 1e6 } }, { size: { longest_edge: 400 } }, [6, 14]],
    ['by the least of the option', { images: { min_pixels: 16 } }, { min_pixels: 2000 }, [16, 34]],
    ['by the most, where the least is more', { images: { min_pixels: 1e5 } }, { max_pixels: 400 }, [6, 14]],
  ])('have an area %s', async (_, files, given, form) => {
    expect(await formOf([60, 28], files, given)).toEqual(form);
  });

  it('are no smaller than the area that they may have', async () => {
    // The nearest whole tokens are 20 x 20 pixels, though the image has more.
    expect(await formOf([21, 20], { images: { min_pixels: 16, max_pixels: 400 } })).toEqual([10, 10]);
  });

  it('take patches and merging from either file', async () => {
    const images = { patch_size: 4, merge_size: 1, temporal_patch_size: 2, min_pixels: 16 };
    expect(await formOf([40, 20], { vision: { spatial_merge_size: 1 }, images })).toEqual([5, 10]);
    // The usual ones: patches of 14 pixels.
    expect(await formOf([56, 84], { vision: {} })).toEqual([6, 4]);
  });

  it('have no more patches than the bound, whatever is asked for', async () => {
    const all = { min_pixels: 1e9, max_pixels: 1e9 };
    for (const merge of [1, 2, 3, 4]) {
      const processor = load({ vision: { patch_size: 1, spatial_merge_size: merge }, images: all });
      const side = fc.integer({ min: 1, max: 400 });
      await fc.assert(
        fc.asyncProperty(side, side, async (width, height) => {
          fc.pre(Math.max(width, height) <= 200 * Math.min(width, height));
          const { image } = await processor.read(await noise(width, height));
          expect(numPatches(image.tiles[0]!)).toBeLessThanOrEqual(MOST_PATCHES);
          expect(image.numTokens).toBe(numPatches(image.tiles[0]!) / merge ** 2);
        }),
        { numRuns: 25 },
      );
    }
    const large = load({ vision: { patch_size: 1 }, images: all });
    const { image } = await large.read(await noise(512, 512));
    expect(numPatches(image.tiles[0]!)).toBe(MOST_PATCHES);
  });

  it('have no more patches than the encoder is told of, however narrow they are', async () => {
    const area = fc.integer({ min: 1, max: 5000 });
    const size = fc.oneof(
      fc.constantFrom([200, 1], [1, 200], [2, 400], [7, 3]),
      fc.tuple(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 100 })),
    );
    await fc.assert(
      fc.asyncProperty(area, area, size, async (min_pixels, max_pixels, [width, height]) => {
        const processor = load({ images: { min_pixels, max_pixels } });
        const { image } = await processor.read(await noise(width!, height!));
        expect(numPatches(image.tiles[0]!)).toBeLessThanOrEqual(processor.mostPatches!);
      }),
      { numRuns: 100 },
    );
  });

  it('are refused where they are too narrow', async () => {
    const processor = load({});
    await processor.read(await noise(200, 1));
    const refused = processor.read(await noise(2, 401));
    await expect(refused).rejects.toThrow(InvalidRequestError);
    await expect(refused).rejects.toThrow(
      'the longer side of an image may be 200 times as long as the other one at most, got 2 x 401 pixels',
    );
  });

  it.each<[string, Files, string]>([
    ['images of their own sizes', { images: { do_resize: false } }, 'do_resize must be true'],
    [
      'more pictures at a time',
      { images: { temporal_patch_size: 4 } },
      'temporal_patch_size must be 2, got 4',
    ],
    [
      'another patch size',
      { images: { patch_size: 16 } },
      'patch_size and merge_size are not patch_size and',
    ],
    ['another merging', { images: { merge_size: 4 } }, 'spatial_merge_size of vision_config in'],
    ['merging too much', { vision: { spatial_merge_size: 5 } }, 'spatial_merge_size must be at most 4'],
  ])('are not served with %s', (_, files, message) => {
    expect(() => load(files)).toThrow(ModelLoadError);
    expect(() => load(files)).toThrow(message);
  });

  it.each<[GivenFields, string]>([
    [{ max_pixels: '1M' }, 'max_pixels must be a number, got "1M"'],
    [{ min_pixels: 0 }, 'min_pixels must be greater than 0'],
    [
      { do_resize: false },
      'the JSON has no field do_resize; this model takes min_pixels and max_pixels, or both',
    ],
    [{ size: { height: 28 } }, 'size has no field height; this model takes min_pixels and max_pixels'],
  ])('have no other fields in --mm-processor-kwargs: %j', (given, message) => {
    expect(() => load({}, given)).toThrow(ConfigError);
    expect(() => load({}, given)).toThrow(`--mm-processor-kwargs: ${message}`);
  });
});
