// Which processor a model gets, what its files may leave out, and what is refused.

import fc from 'fast-check';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import type { ImageProcessor, ImageTile } from '../../src/images/image-processor.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { type ImageModel, imageModel } from './image-model.ts';
import { noise, noiseAt } from './noise.ts';

const folder = temporaryFolders();

const SMALL = {
  config: {
    architectures: ['SmolVLMForConditionalGeneration'],
    vision_config: { image_size: 32, patch_size: 8 },
    scale_factor: 2,
  },
  images: { max_image_size: { longest_edge: 32 }, size: { longest_edge: 96 } },
  processor: { image_seq_len: 4 },
};

const MISTRAL = {
  config: {
    architectures: ['Mistral3ForConditionalGeneration'],
    vision_config: { patch_size: 4 },
    spatial_merge_size: 2,
  },
  images: { size: { longest_edge: 40 } },
};

function load(model: ImageModel): ImageProcessor | null {
  return loadImageProcessor(imageModel(folder(), model));
}

/** The pixel of a tile at a place, of one channel. */
function pixelOf(
  { cols, patches }: ImageTile,
  patchSize: number,
  x: number,
  y: number,
  channel: number,
): number {
  const patch = Math.trunc(y / patchSize) * cols + Math.trunc(x / patchSize);
  return patches[((patch * 3 + channel) * patchSize + (y % patchSize)) * patchSize + (x % patchSize)]!;
}

describe('loadImageProcessor', () => {
  it('gives null where the model sees no images', () => {
    expect(load({ ...SMALL, config: { architectures: ['LlamaForCausalLM'] } })).toBeNull();
    expect(load({ ...SMALL, config: {} })).toBeNull();
  });

  it('gives null where no file says how pixels are made ready', () => {
    expect(load({ config: SMALL.config })).toBeNull();
    expect(load({ config: SMALL.config, processor: SMALL.processor })).toBeNull();
  });

  it('takes the settings of newer files, which have all in one', async () => {
    const all = { ...SMALL.processor, image_processor: SMALL.images };
    const newer = load({
      config: SMALL.config,
      processor: all,
      images: { max_image_size: { longest_edge: 7 } },
    });
    const file = await noise(50, 20);
    expect(await newer?.read(file)).toEqual(await load(SMALL)?.read(file));
  });

  it('reckons the tokens of a tile where no file says how many they are', async () => {
    const { image } = await load({ ...SMALL, processor: {} })!.read(await noise(32, 32));
    expect(image.numTokens).toBe(image.tiles.length * 4);
  });

  it('makes numbers of bytes as the model was trained', async () => {
    const images = {
      ...SMALL.images,
      image_mean: [0.5, 0.25, 0],
      image_std: [0.5, 0.25, 1],
      rescale_factor: 1 / 255,
    };
    const { image } = await load({ ...SMALL, images })!.read(await noise(8, 8));
    const { factors, offsets } = image.colours;
    const ends = factors.map((factor, colour) => [offsets[colour]!, 255 * factor + offsets[colour]!]);
    for (const [colour, [black, white]] of [
      [-1, 1],
      [-1, 3],
      [0, 1],
    ].entries()) {
      expect(ends[colour]![0]).toBeCloseTo(black!);
      expect(ends[colour]![1]).toBeCloseTo(white!);
    }
  });

  it('gives the same hash to the same image only', async () => {
    const processor = load(SMALL)!;
    const hashOf = async (file: Uint8Array) => (await processor.read(file)).image.hash;
    const hash = await hashOf(await noise(30, 20));
    expect(await hashOf(await noise(30, 20))).toBe(hash);
    expect(await hashOf(await noise(20, 30))).not.toBe(hash);
    const brighter = load({ ...SMALL, images: { ...SMALL.images, image_mean: [0.4, 0.5, 0.5] } })!;
    expect((await brighter.read(await noise(30, 20))).image.hash).not.toBe(hash);
  });

  it('gives another hash to an image of another form, though its patches are the same', async () => {
    const processor = load(MISTRAL)!;
    const plain = (width: number, height: number) =>
      sharp({ create: { width, height, channels: 3, background: '#fff' } })
        .png()
        .toBuffer();
    const [wide, tall] = [await processor.read(await plain(32, 8)), await processor.read(await plain(8, 32))];
    expect(wide.image.tiles[0]!.patches).toEqual(tall.image.tiles[0]!.patches);
    expect(wide.image.hash).not.toBe(tall.image.hash);
  });

  it('makes no image larger than 4096 pixels, whatever the files say', async () => {
    const vision_config = { image_size: 2048, patch_size: 512 };
    const images = { max_image_size: { longest_edge: 2048 }, size: { longest_edge: 8192 } };
    const model = { config: { ...SMALL.config, vision_config }, images };
    for (const [width, height] of [
      [2, 1],
      [1, 2],
    ] as const) {
      // Two by one, and the whole.
      expect((await load(model)!.read(await noise(width, height))).image.tiles).toHaveLength(3);
    }
  });

  it.each([
    ['Idefics3', SMALL],
    ['Pixtral', MISTRAL],
  ])('has as many placeholders in the text as tokens, with %s', async (_, model) => {
    const processor = load(model)!;
    const side = fc.integer({ min: 1, max: 130 });
    await fc.assert(
      fc.asyncProperty(side, side, async (width, height) => {
        const { image, text } = await processor.read(await noise(width, height));
        expect(text.split(processor.placeholder).length - 1).toBe(image.numTokens);
        // Here, four patches are a token.
        const numPatches = image.tiles.reduce((sum, { rows, cols }) => sum + rows * cols, 0);
        expect(image.numTokens).toBe(numPatches / 4);
        for (const { rows, cols, patches } of image.tiles)
          expect(patches.length).toBe(rows * cols * 3 * patchArea(model));
      }),
      { numRuns: 40 },
    );
  });

  it('covers an image with tiles, and adds all of it as the last one', async () => {
    // No side has to be changed.
    const file = await noise(96, 64);
    const { data } = await sharp(file).raw().toBuffer({ resolveWithObject: true });
    const { image } = await load(SMALL)!.read(file);
    expect(image.tiles).toHaveLength(3 * 2 + 1);
    for (let y = 0; y < 64; y++) {
      for (let x = 0; x < 96; x++) {
        const tile = image.tiles[Math.trunc(y / 32) * 3 + Math.trunc(x / 32)]!;
        for (let channel = 0; channel < 3; channel++) {
          expect(pixelOf(tile, 8, x % 32, y % 32, channel)).toBe(data[(y * 96 + x) * 3 + channel]);
        }
      }
    }
  });

  it('has a tile at least for what is thinner than any, where it is not resized before', async () => {
    const images = { ...SMALL.images, do_resize: false };
    // 1568 times one 1568th is less than one.
    const { image } = await load({ ...SMALL, images })!.read(await noise(1, 1568));
    expect(image.tiles).toHaveLength(1568 / 32 + 1);
  });

  it('leaves out what is behind the last whole patch of a tile, as SmolVLM2 2.2B', async () => {
    const vision_config = { image_size: 28, patch_size: 9 };
    const processor = { image_seq_len: 1 };
    const images = { max_image_size: { longest_edge: 28 }, size: { longest_edge: 56 } };
    const model = { config: { ...SMALL.config, vision_config, scale_factor: 3 }, images, processor };
    const { image } = await load(model)!.read(await noise(56, 56));
    expect(image.numTokens).toBe(5);
    expect(image.tiles.map(({ rows, cols }) => [rows, cols])).toEqual(new Array(5).fill([3, 3]));
    // It has the size already: the second tile begins with the 29th pixel of the first line.
    const numbers = [0, 28].map((x) => noiseAt(x * 3));
    expect(image.tiles.slice(0, 2).map((tile) => pixelOf(tile, 9, 0, 0, 0))).toEqual(numbers);
  });

  it.each([
    [
      'tiles that do not fill the encoder',
      { ...SMALL, images: { max_image_size: { longest_edge: 24 } } },
      'max_image_size.longest_edge is 24',
    ],
    ['another number of tokens', { ...SMALL, processor: { image_seq_len: 5 } }, 'image_seq_len is 5, but by'],
    [
      'tiles that are no whole tokens',
      { ...SMALL, config: { ...SMALL.config, scale_factor: 3 } },
      'image_size has 4 patches (patch_size), expected a multiple of scale_factor, 3',
    ],
    [
      'an unknown filter',
      { ...SMALL, images: { ...SMALL.images, resample: 4 } },
      'preprocessor_config.json: resample must be',
    ],
    [
      'deviations of zero',
      { ...SMALL, images: { ...SMALL.images, image_std: [0, 1, 1] } },
      'image_std[0] must be',
    ],
    ['images of their own sizes', { ...MISTRAL, images: { do_resize: false } }, 'do_resize must be'],
    [
      'another patch size',
      { ...MISTRAL, processor: { patch_size: 16 } },
      'patch_size and spatial_merge_size are not those of',
    ],
    [
      'another merging',
      { ...MISTRAL, processor: { spatial_merge_size: 4 } },
      'patch_size and spatial_merge_size are not those of',
    ],
  ])('refuses %s', (_, model, message) => {
    expect(() => load(model)).toThrow(ModelLoadError);
    expect(() => load(model)).toThrow(message);
  });
});

function patchArea({ config }: typeof SMALL | typeof MISTRAL): number {
  return config.vision_config.patch_size ** 2;
}
