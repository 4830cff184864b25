// What becomes of the files that people send, before a model's processor sees them.

import { execFileSync } from 'node:child_process';
import { crc32, deflateSync } from 'node:zlib';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { InvalidRequestError } from '../../src/errors.ts';
import { decodeImage } from '../../src/images/decode-image.ts';

const RED_AND_BLUE = Buffer.from([255, 0, 0, 0, 0, 255]);
const redBesideBlue = () => sharp(RED_AND_BLUE, { raw: { width: 2, height: 1, channels: 3 } });
const plain = (background: string, channels: 3 | 4 = 3) =>
  sharp({ create: { width: 3, height: 5, channels, background } });

async function firstPixel(file: Uint8Array): Promise<number[]> {
  return [...(await decodeImage(file)).data.subarray(0, 3)];
}

describe('decodeImage', () => {
  it.each([
    ['PNG', plain('#204060').png()],
    ['WebP', plain('#204060').webp({ lossless: true })],
    ['GIF', plain('#204060').gif()],
    ['JPEG', plain('#204060').jpeg({ quality: 100, chromaSubsampling: '4:4:4' })],
    ['PNG of 16 bits', plain('#204060').toColourspace('rgb16').png()],
    ['PNG with a palette', plain('#204060').png({ palette: true })],
  ])('reads %s', async (_, image) => {
    const { width, height, data } = await decodeImage(await image.toBuffer());
    expect([width, height, data.length]).toEqual([3, 5, 45]);
    for (const [channel, level] of [0x20, 0x40, 0x60].entries()) {
      expect(Math.abs(data[channel]! - level)).toBeLessThanOrEqual(1);
    }
  });

  it('gives grey its three colours', async () => {
    const file = await plain('#777777').toColourspace('b-w').png().toBuffer();
    expect(await firstPixel(file)).toEqual([0x77, 0x77, 0x77]);
  });

  it('makes red, green and blue of the colours of print', async () => {
    const file = await plain('#ffffff').toColourspace('cmyk').jpeg({ quality: 100 }).toBuffer();
    expect((await sharp(file).metadata()).channels).toBe(4);
    const { width, height, data } = await decodeImage(file);
    expect([width, height, data.length]).toEqual([3, 5, 45]);
    expect(Math.min(...data)).toBeGreaterThan(240);
  });

  it('takes no more data than an image has pixels, however much a file unpacks to', async () => {
    const bomb = withData(await plain('#204060').png().toBuffer(), deflateSync(Buffer.alloc(2 ** 27)));
    const before = process.memoryUsage().rss;
    expect((await decodeImage(bomb)).width).toBe(3);
    expect(process.memoryUsage().rss - before).toBeLessThan(100e6);
  });

  it('puts what is transparent on white', async () => {
    expect(await firstPixel(await plain('#ff000000', 4).png().toBuffer())).toEqual([255, 255, 255]);
    expect(await firstPixel(await plain('#ff000080', 4).png().toBuffer())).toEqual([255, 127, 127]);
    expect(await firstPixel(await plain('#00000000', 4).gif().toBuffer())).toEqual([255, 255, 255]);
    const grey = await plain('#00000080', 4).toColourspace('b-w').png().toBuffer();
    expect(await firstPixel(grey)).toEqual([127, 127, 127]);
  });

  it.each([
    [1, { width: 2, height: 1, isRedFirst: true }],
    [2, { width: 2, height: 1, isRedFirst: false }],
    [3, { width: 2, height: 1, isRedFirst: false }],
    [6, { width: 1, height: 2, isRedFirst: true }],
    [8, { width: 1, height: 2, isRedFirst: false }],
  ])('turns an image of orientation %i', async (orientation, { width, height, isRedFirst }) => {
    const file = await redBesideBlue().withMetadata({ orientation }).png().toBuffer();
    const image = await decodeImage(file);
    expect([image.width, image.height]).toEqual([width, height]);
    expect(image.data[0]).toBe(isRedFirst ? 255 : 0);
  });

  it.each(['gif', 'webp'] as const)('takes the first picture of several: %s', async (format) => {
    const frames = Buffer.concat([Buffer.alloc(12, 255), Buffer.alloc(12, 0)]);
    const file = await sharp(frames, { raw: { width: 2, height: 4, channels: 3, pageHeight: 2 } })
      .toFormat(format, { lossless: true })
      .toBuffer();
    const { width, height, data } = await decodeImage(file);
    expect([width, height, data[0]]).toEqual([2, 2, 255]);
  });

  it('leaves colours as the file has them, whatever its profile says', async () => {
    const file = await plain('#ff0000').withIccProfile('p3').png().toBuffer();
    expect(await firstPixel(file)).toEqual(
      [...(await sharp(file, { ignoreIcc: true }).raw().toBuffer())].slice(0, 3),
    );
  });

  it.each([
    ['text', Buffer.from('hello, world')],
    ['nothing', Buffer.alloc(0)],
    ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')],
  ])('refuses %s', async (_, file) => {
    await expect(decodeImage(file)).rejects.toThrow(
      /^an image must be a file of one of the formats PNG, JPEG/,
    );
  });

  it('refuses other formats that its decoder could read', async () => {
    const file = await plain('#204060').tiff().toBuffer();
    await expect(decodeImage(file)).rejects.toThrow('PNG, JPEG, WebP and GIF');
  });

  it('refuses a file that has been cut', async () => {
    const noise = {
      width: 200,
      height: 200,
      channels: 3,
      noise: { type: 'gaussian', mean: 128, sigma: 50 },
    } as const;
    for (const image of [
      sharp({ create: { ...noise, background: '#000' } }).png(),
      sharp({ create: { ...noise, background: '#000' } }).jpeg(),
    ]) {
      const file = await image.toBuffer();
      const error = await decodeImage(file.subarray(0, file.length / 2)).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(InvalidRequestError);
      expect(error).toMatchObject({
        param: 'messages',
        message: expect.stringMatching(/^an image cannot be read: .*whole file/),
      });
    }
  });

  it('reads what has small faults', async () => {
    const pixels = Uint8Array.from({ length: 99 * 99 * 3 }, (_, i) => (i * i * 31 + (i >> 5) * 17) % 256);
    const raw = { width: 99, height: 99, channels: 3 } as const;
    const file = await sharp(pixels, { raw }).jpeg().toBuffer();
    file.fill(0xff, Math.floor(file.length / 2), Math.floor(file.length / 2) + 50);
    expect((await decodeImage(file)).width).toBe(99);
  });

  it('says in one sentence why a file with no more than a head is refused', async () => {
    const png = await plain('#204060').png().toBuffer();
    await expect(decodeImage(png.subarray(0, 14))).rejects.toThrow(/corrupt header; send a whole file/);
  });

  it('refuses sides that are too long', async () => {
    const thin = (height: number) => sharp({ create: { width: 1, height, channels: 3, background: '#000' } });
    expect((await decodeImage(await thin(65_535).png().toBuffer())).height).toBe(65_535);
    const refused = decodeImage(await thin(65_536).png().toBuffer());
    await expect(refused).rejects.toThrow('sides of 65535 at most, got one of 1 x 65536');
  });

  it('refuses too many pixels before it takes memory for them', async () => {
    const bomb = await sharp({
      create: { width: 16_000, height: 16_000, channels: 3, background: '#000' },
      limitInputPixels: false,
    })
      .png()
      .toBuffer();
    const before = process.memoryUsage().rss;
    await expect(decodeImage(bomb)).rejects.toThrow('got one of 16000 x 16000: send a smaller one');
    expect(process.memoryUsage().rss - before).toBeLessThan(100e6);
  });

  it('does not load its decoder before there is an image', () => {
    const script = `
      await import('./src/images/load-image-processor.ts');
      const { decodeImage } = await import('./src/images/decode-image.ts');
      await decodeImage(Buffer.from('no image')).catch(() => {});
      const loaded = process.report.getReport().sharedObjects.some((name) => name.includes('libvips'));
      console.log(loaded ? 'loaded' : 'not loaded');`;
    const node = execFileSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      encoding: 'utf8',
    });
    expect(node.trim()).toBe('not loaded');
  });
});

/** The PNG with other data in the place of its own. */
function withData(png: Buffer, data: Buffer): Buffer {
  const [start, end] = [png.indexOf('IDAT') - 4, png.indexOf('IEND') - 4];
  const chunk = Buffer.alloc(data.length + 12);
  chunk.writeUInt32BE(data.length, 0);
  chunk.write('IDAT', 4);
  data.copy(chunk, 8);
  chunk.writeUInt32BE(crc32(chunk.subarray(4, -4)), data.length + 8);
  return Buffer.concat([png.subarray(0, start), chunk, png.subarray(end)]);
}
