// Images in the text and among the tokens of a prompt, where what stands for an image holds its mark, too.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HeldImages } from '../../src/engine/held-images.ts';
import { ImageInputs, imageKeys } from '../../src/engine/image-inputs.ts';
import { loadImageReader } from '../../src/images/image-reader.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import type { Tokenizer } from '../../src/tokenizer/tokenizer.ts';
import {
  specialTokens,
  TINY_VOCAB_SIZE,
  tinyTokenizer,
  tinyTokenizerConfig,
} from '../fixtures/tiny-tokenizer.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { imageModel } from '../images/image-model.ts';
import { noise } from '../images/noise.ts';

const newFolder = temporaryFolders();
const MARK = '<start_of_image>';
const NUM_TOKENS = 4;
/** What one image of the model below is in a text. */
const IMAGE = `\n\n${MARK}${'<image_soft_token>'.repeat(NUM_TOKENS)}<end_of_image>\n\n`;

let tokenizer: Tokenizer;
let inputs: ImageInputs;
let files: Uint8Array[];

beforeAll(async () => {
  const folder = newFolder();
  const model = imageModel(folder, {
    config: {
      architectures: ['Gemma3ForConditionalGeneration'],
      vision_config: { image_size: 8, patch_size: 2 },
      mm_tokens_per_image: NUM_TOKENS,
    },
    images: {},
  });
  const plain = tinyTokenizer();
  const added = specialTokens([MARK, '<image_soft_token>', '<end_of_image>'], TINY_VOCAB_SIZE);
  const json = { ...plain, added_tokens: [...plain.added_tokens, ...added] };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(json));
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(tinyTokenizerConfig(512)));
  const loaded = await loadTokenizer(model);
  tokenizer = loaded.tokenizer;
  inputs = (await ImageInputs.open(loadImageReader(model)!, tokenizer))!;
  files = await Promise.all([noise(8, 8), noise(20, 5)]);
});
afterAll(() => Promise.all([inputs.close(), tokenizer.close()]));

describe('images whose text holds their mark', () => {
  it('take the place of one mark each', async () => {
    const { text, images } = await inputs.read(`One ${MARK} and ${MARK}.`, files, {});
    expect(text).toBe(`One ${IMAGE} and ${IMAGE}.`);
    const places = inputs.place(await tokenizer.encode(text, { addSpecialTokens: true }), images);
    expect(places.map(({ image }) => image)).toEqual(images);
    expect(places.map(({ positions }) => positions.length)).toEqual([NUM_TOKENS, NUM_TOKENS]);
    expect(images[0]!.hash).not.toBe(images[1]!.hash);
    // No block that holds a token of an image is found for another one.
    const keys = places.map(({ positions }, index) => ({
      position: positions[0],
      key: ['image', images[index]!.hash],
    }));
    expect(imageKeys(places)).toEqual(keys);
  });

  it('are counted as they are made ready: none is read for which there is no memory', async () => {
    const held = new HeldImages(300);
    held.open('other').hold(100);
    const { hold } = held.open('one');
    // Each has 192 bytes.
    const reading = inputs.read(`${MARK}${MARK}${MARK}`, [...files, Buffer.from('no image')], { hold });
    await expect(reading).rejects.toThrow('have 292 bytes of pixels, 192 of them yours');
  });

  it('are told which of them cannot be read', async () => {
    const bad = Buffer.from('no image');
    const reading = inputs.read(`${MARK}${MARK}`, [files[0]!, bad], {});
    await expect(reading).rejects.toThrow(/^an image .*\(image 2 of 2\)$/);
    await expect(inputs.read(MARK, [bad], {})).rejects.toThrow(/^an image (?!.*of 1)/);
  });

  it('are refused beside marks and placeholders of the text itself', async () => {
    await expect(inputs.read(`${MARK} and ${MARK}`, files.slice(0, 1), {})).rejects.toThrow(
      '2 marks of images (<start_of_image>) for 1 images',
    );
    const { text, images } = await inputs.read(`${MARK} and <image_soft_token>`, files.slice(0, 1), {});
    const ids = await tokenizer.encode(text, { addSpecialTokens: true });
    expect(() => inputs.place(ids, images)).toThrow(
      'the prompt has 5 tokens <image_soft_token>, its images have 4',
    );
  });
});
