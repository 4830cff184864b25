// Images are read in a thread, as they are without one.

import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { InvalidRequestError, OverloadedError } from '../../src/errors.ts';
import { loadImageReader } from '../../src/images/image-reader.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { turnsDuring } from '../helpers/turns.ts';
import { imageModel } from './image-model.ts';

const file = readFileSync(new URL('../fixtures/images/wide.png', import.meta.url));
const folder = temporaryFolders();
const files = imageModel(folder(), {
  config: {
    architectures: ['SmolVLMForConditionalGeneration'],
    vision_config: { image_size: 512, patch_size: 16 },
    scale_factor: 4,
  },
  images: { max_image_size: { longest_edge: 512 }, size: { longest_edge: 2048 } },
});

describe('ImageReader', () => {
  const reader = loadImageReader(files)!;
  afterAll(() => reader.close());

  it('gives what the processor of the model does', async () => {
    const processor = loadImageProcessor(files)!;
    expect([reader.mark, reader.placeholder]).toEqual([processor.mark, processor.placeholder]);
    const [inThread, here] = await Promise.all([reader.read(file), processor.read(file)]);
    expect(inThread).toEqual(here);
    // The engine and its ranks get it without a copy.
    for (const { patches } of inThread.image.tiles) expect(patches.buffer).toBeInstanceOf(SharedArrayBuffer);
  });

  it('leaves the turns of the main thread to others', async () => {
    expect(await turnsDuring(reader.read(file))).toBeGreaterThan(10);
    expect(file.length).toBeGreaterThan(0);
  });

  it('refuses what is no image, and goes on', async () => {
    const refused = reader.read(Buffer.from('no image'), { caller: 'one' });
    const read = reader.read(file, { caller: 'other' });
    await expect(refused).rejects.toThrow(InvalidRequestError);
    await expect(refused).rejects.toMatchObject({ param: 'messages' });
    expect((await read).image.tiles.length).toBeGreaterThan(1);
  });

  it('lets only so many bytes wait, and no image of a client that has left', async () => {
    const large = Buffer.alloc(160 * 2 ** 20);
    const client = new AbortController();
    const first = reader.read(file);
    const waiting = reader.read(large, { signal: client.signal });
    await expect(reader.read(large)).rejects.toThrow(OverloadedError);
    client.abort(new Error('the client has left'));
    await expect(waiting).rejects.toThrow('the client has left');
    // It has left its room.
    await expect(reader.read(large)).rejects.toThrow(InvalidRequestError);
    expect((await first).image.tiles.length).toBeGreaterThan(1);
  });

  it('is none of a model without images', () => {
    expect(
      loadImageReader(imageModel(folder(), { config: { architectures: ['LlamaForCausalLM'] } })),
    ).toBeNull();
  });
});
