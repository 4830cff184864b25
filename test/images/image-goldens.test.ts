// Images as the processors of transformers make them ready: the same text, and the same bytes.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { ImageProcessor, ReadImage } from '../../src/images/image-processor.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { imageModel } from './image-model.ts';

const FIXTURES = new URL('../fixtures/images/', import.meta.url);

const goldens = z.record(
  z.string(),
  z.object({
    config: z.looseObject({}),
    processor: z.looseObject({}),
    images: z.looseObject({}),
    expected: z.record(
      z.string(),
      z.object({
        /** With each run of placeholders as one and their number. */
        text: z.string(),
        /** Rows and columns of each. */
        tiles: z.array(z.tuple([z.int(), z.int()])),
        /** SHA-256 of those of all tiles. */
        patches: z.string(),
      }),
    ),
  }),
);

const folder = temporaryFolders();
const cases = Object.entries(
  goldens.parse(JSON.parse(readFileSync(new URL('goldens.json', FIXTURES), 'utf8'))),
);

describe.each(cases)('%s', (_, { expected, ...model }) => {
  const processor = loadImageProcessor(imageModel(folder(), model))!;

  it.each(Object.entries(expected))('reads %s as transformers does', async (name, golden) => {
    const { image, text } = await processor.read(readFileSync(new URL(name, FIXTURES)));
    expect(withCounts(text, processor.placeholder)).toBe(golden.text);
    expect(image.tiles.map(({ rows, cols }) => [rows, cols])).toEqual(golden.tiles);
    expect(hashOfPatches({ image, text })).toBe(golden.patches);
    expect(image.numTokens).toBe(numPlaceholders(processor, text));
  });
});

function withCounts(text: string, placeholder: string): string {
  const runs = new RegExp(`(${placeholder.replace(/[[\]|]/g, '\\$&')})+`, 'g');
  return text.replace(runs, (run) => `${placeholder}*${run.length / placeholder.length}`);
}

function hashOfPatches({ image }: ReadImage): string {
  const hash = createHash('sha256');
  for (const { patches } of image.tiles) hash.update(patches);
  return hash.digest('hex');
}

function numPlaceholders({ placeholder }: ImageProcessor, text: string): number {
  return text.split(placeholder).length - 1;
}
