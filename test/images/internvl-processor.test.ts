// Images of InternVL: what its files and --mm-processor-kwargs may say.

import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { imageModel } from './image-model.ts';
import { noise } from './noise.ts';

const folder = temporaryFolders();

interface Changes {
  readonly vision?: object;
  readonly config?: object;
  readonly images?: object;
  readonly processor?: object;
}

function load({ vision, config, images, processor }: Changes = {}, given: Record<string, unknown> = {}) {
  const model = {
    config: {
      architectures: ['InternVLForConditionalGeneration'],
      vision_config: { image_size: 32, patch_size: 4, ...vision },
      ...config,
    },
    images: { size: { height: 32, width: 32 }, ...images },
    ...(processor && { processor }),
  };
  return loadImageProcessor(imageModel(folder(), model), given)!;
}

async function numTiles(width: number, height: number, ...settings: Parameters<typeof load>) {
  const { image } = await load(...settings).read(await noise(width, height));
  expect(image.numTokens).toBe(image.tiles.length * 16);
  return image.tiles.length;
}

const CHAT = { architectures: ['InternVLChatModel'] };

describe('an image of InternVL in the form of its authors', () => {
  it('is cut as config.json says, or as options say, which win', async () => {
    const config = { ...CHAT, min_dynamic_patch: 2, max_dynamic_patch: 4 };
    const images = { size: 32, crop_size: 32 };
    expect(await numTiles(640, 32, { config, images })).toBe(5);
    expect(await numTiles(32, 32, { config, images })).toBe(5);
    expect(await numTiles(640, 32, { config: { ...config, dynamic_image_size: false }, images })).toBe(1);
    expect(await numTiles(640, 32, { config, images }, { max_dynamic_patch: 2 })).toBe(3);
    expect(await numTiles(32, 32, { config, images }, { min_dynamic_patch: 1 })).toBe(1);
    expect(await numTiles(640, 32, { config, images }, { dynamic_image_size: false })).toBe(1);
    expect(await numTiles(640, 32, { config: CHAT })).toBe(13);
  });

  it('is the same as in that of transformers', async () => {
    const file = await noise(100, 70);
    expect(await load({ config: CHAT }).read(file)).toEqual(await load().read(file));
  });

  it('is refused in other forms, and with the options of the other one', () => {
    expect(() => load({ config: { ...CHAT, use_thumbnail: false } })).toThrow(/use_thumbnail/);
    expect(() => load({ config: { ...CHAT, pad2square: true } })).toThrow(/pad2square/);
    expect(() => load({ config: CHAT, images: { size: 64 } })).toThrow(/size is 64 x 64, expected 32 x 32/);
    expect(() => load({ config: CHAT }, { max_patches: 2 })).toThrow(
      /dynamic_image_size, min_dynamic_patch and/,
    );
  });
});

describe('an image of InternVL', () => {
  it('is cut into twelve tiles at most, and seen whole where there are several', async () => {
    expect(await numTiles(32, 32)).toBe(1);
    expect(await numTiles(64, 32)).toBe(3);
    expect(await numTiles(640, 32)).toBe(13);
    expect(await numTiles(640, 480)).toBe(13);
  });

  it('is cut as files say, or as options say, which win', async () => {
    const files = { images: { min_patches: 2, max_patches: 4 } };
    expect(await numTiles(640, 32, files)).toBe(5);
    expect(await numTiles(32, 32, files)).toBe(5);
    expect(await numTiles(640, 32, files, { max_patches: 2 })).toBe(3);
    expect(await numTiles(30, 31, files, { min_patches: 1 })).toBe(1);
    expect(await numTiles(640, 32, files, { crop_to_patches: false })).toBe(1);
    // Most images are large enough for several: of the least more than the most, the most counts.
    expect(await numTiles(640, 32, files, { max_patches: 1 })).toBe(1);
  });

  it('is resized and coloured as in training where files do not say how', async () => {
    const file = await noise(100, 70);
    const usual = { resample: 3, image_mean: [0.485, 0.456, 0.406], image_std: [0.229, 0.224, 0.225] };
    expect(await load({ images: usual }).read(file)).toEqual(await load().read(file));
    expect(await load({ images: { resample: 2 } }).read(file)).not.toEqual(await load().read(file));
  });

  it('is read of files that say one length for both sides, and of those that leave out what is usual', () => {
    expect(() => load({ vision: { image_size: [32, 32], patch_size: [4, 4] } })).not.toThrow();
    const usual = {
      vision: { image_size: undefined, patch_size: undefined },
      images: { size: { height: 448, width: 448 } },
    };
    expect(() => load({ ...usual, processor: { image_seq_length: 256 } })).not.toThrow();
  });

  it.each<[Changes, RegExp]>([
    [{ images: { size: { height: 32, width: 64 } } }, /size is 32 x 64, expected 32 x 32/],
    [{ processor: { image_seq_length: 15 } }, /image_seq_length is 15, but .* a tile has 16 tokens/],
    [{ config: { downsample_ratio: 0.3 } }, /a tile has 2\.4 tokens on each side .* expected a whole number/],
    [{ images: { max_patches: 1000 } }, /max_patches/],
    [{ images: { do_resize: false } }, /do_resize/],
  ])('is refused where files contradict each other: %j', (changes, message) => {
    expect(() => load(changes)).toThrow(ModelLoadError);
    expect(() => load(changes)).toThrow(message);
  });

  it('is refused where options say what means nothing to it', () => {
    expect(() => load({}, { max_dynamic_patch: 6 })).toThrow(ConfigError);
    expect(() => load({}, { max_dynamic_patch: 6 })).toThrow(/crop_to_patches, min_patches and max_patches/);
  });
});
