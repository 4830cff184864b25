// What becomes of images of Gemma 3, and what is refused.

import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import type { GivenFields } from '../../src/images/given-fields.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { type ImageModel, imageModel } from './image-model.ts';
import { noise } from './noise.ts';

const folder = temporaryFolders();

const CONFIG = {
  architectures: ['Gemma3ForConditionalGeneration'],
  vision_config: { image_size: 32, patch_size: 4 },
  mm_tokens_per_image: 16,
};
const GEMMA3 = { config: CONFIG, images: { size: { height: 32, width: 32 } } };

function load(model: ImageModel, given: GivenFields = {}) {
  return loadImageProcessor(imageModel(folder(), model), given)!;
}

describe('images of Gemma 3', () => {
  it.each([
    [32, 32],
    [50, 3],
    [1, 300],
  ])('are the same square and number of tokens: %i x %i', async (width, height) => {
    const processor = load(GEMMA3);
    const { image, text } = await processor.read(await noise(width, height));
    expect(image.tiles.map(({ rows, cols, patches }) => [rows, cols, patches.length])).toEqual([
      [8, 8, 32 * 32 * 3],
    ]);
    expect(image.numTokens).toBe(16);
    expect(text).toBe(`\n\n${processor.mark}${processor.placeholder.repeat(16)}<end_of_image>\n\n`);
  });

  it('have the size of the encoder where no file says it', async () => {
    const file = await noise(20, 30);
    expect(await load({ ...GEMMA3, images: {} }).read(file)).toEqual(await load(GEMMA3).read(file));
  });

  it.each<[string, ImageModel, string]>([
    [
      'crops beside the image',
      { ...GEMMA3, images: { do_pan_and_scan: true } },
      'preprocessor_config.json: do_pan_and_scan must be false, got true',
    ],
    ['images of their own sizes', { ...GEMMA3, images: { do_resize: false } }, 'do_resize must be true'],
    [
      'another size than that of the encoder',
      { ...GEMMA3, images: { size: { height: 16, width: 32 } } },
      'size is 16 x 32, expected 32 x 32',
    ],
    [
      'tokens that are no square',
      { ...GEMMA3, config: { ...CONFIG, mm_tokens_per_image: 8 } },
      'mm_tokens_per_image is 8, expected the square of a number that divides 8',
    ],
    [
      'tokens that are no whole patches',
      { ...GEMMA3, config: { ...CONFIG, mm_tokens_per_image: 9 } },
      'mm_tokens_per_image is 9, expected',
    ],
    [
      'another number of tokens',
      { ...GEMMA3, processor: { image_seq_length: 4 } },
      'image_seq_length is 4, but mm_tokens_per_image',
    ],
  ])('are not served with %s', (_, model, message) => {
    expect(() => load(model)).toThrow(ModelLoadError);
    expect(() => load(model)).toThrow(message);
  });

  it.each([[{ do_pan_and_scan: true }], [{ size: { longest_edge: 16 } }]])(
    'are the same whatever --mm-processor-kwargs could say: %j is refused',
    (given) => {
      expect(() => load(GEMMA3, given)).toThrow(ConfigError);
      expect(() => load(GEMMA3, given)).toThrow(
        `--mm-processor-kwargs: the JSON has no field ${Object.keys(given)[0]}; this model takes none`,
      );
    },
  );
});
