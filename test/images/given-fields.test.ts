// What --mm-processor-kwargs makes of images, and what of it is refused.

import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import type { GivenFields } from '../../src/images/given-fields.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { type ImageModel, imageModel } from './image-model.ts';
import { noise } from './noise.ts';

const folder = temporaryFolders();

const IDEFICS3 = {
  config: {
    architectures: ['Idefics3ForConditionalGeneration'],
    vision_config: { image_size: 32, patch_size: 8 },
    scale_factor: 2,
  },
  images: { max_image_size: { longest_edge: 32 }, size: { longest_edge: 96 } },
};

const PIXTRAL = {
  config: {
    architectures: ['Mistral3ForConditionalGeneration'],
    vision_config: { patch_size: 4 },
    spatial_merge_size: 2,
  },
  images: { size: { longest_edge: 40 } },
};

function load(model: ImageModel, given: GivenFields) {
  return loadImageProcessor(imageModel(folder(), model), given)!;
}

async function tokensOf(model: ImageModel, given: GivenFields): Promise<number> {
  const { image } = await load(model, given).read(await noise(96, 48));
  return image.numTokens;
}

describe('--mm-processor-kwargs', () => {
  it.each([
    // Three by two tiles and the whole, two by one, and the whole alone; of 4 tokens each.
    ['Idefics3', IDEFICS3, { size: { longest_edge: 96 } }, 28],
    ['Idefics3', IDEFICS3, { size: { longest_edge: 64 } }, 12],
    ['Idefics3', IDEFICS3, { size: { longest_edge: 20 } }, 4],
    ['Pixtral', PIXTRAL, {}, 15],
    ['Pixtral', PIXTRAL, { size: {} }, 15],
    ['Pixtral', PIXTRAL, { size: { longest_edge: 32 } }, 8],
  ])('says how large images of %s are: %#', async (_, model, given, tokens) => {
    expect(await tokensOf(model, given)).toBe(tokens);
  });

  it.each<[string, ImageModel, GivenFields, string]>([
    [
      'more than Idefics3 has',
      IDEFICS3,
      { size: { longest_edge: 97 } },
      'size.longest_edge must be at most 96',
    ],
    [
      'more than Pixtral has',
      PIXTRAL,
      { size: { longest_edge: 41 } },
      'size.longest_edge must be at most 40',
    ],
    [
      'what Pixtral does not know',
      PIXTRAL,
      { max_pixels: 100 },
      'the JSON has no field max_pixels; this model takes {"size": {"longest_edge": <pixels>}}',
    ],
    [
      'half a pixel',
      PIXTRAL,
      { size: { longest_edge: 0.5 } },
      'size.longest_edge must be an integer, got 0.5',
    ],
    ['another size', IDEFICS3, { size: { height: 32 } }, 'size has no field height; this model takes'],
  ])('is refused with %s', (_, model, given, message) => {
    expect(() => load(model, given)).toThrow(ConfigError);
    expect(() => load(model, given)).toThrow(`--mm-processor-kwargs: ${message}`);
  });
});
