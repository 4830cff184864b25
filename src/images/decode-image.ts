// Pixels of the files that people send: decoded by sharp, which is loaded with the first of them.

import { InvalidRequestError, messageOf } from '../errors.ts';
import { IMAGE_FORMATS, imageFormat } from './image-format.ts';
import { CHANNELS, type Pixels } from './pixels.ts';

/** About 150 MB of pixels: more than any camera's, less than a server misses. */
const MAX_PIXELS = 50_000_000;
/** As long as a JPEG's can be. */
const MAX_SIDE = 65_535;
/** A file of few bytes may be made to take very long. */
const MAX_SECONDS = 30;

/**
 * The image as it is meant to be seen: turned as its EXIF data says, and on white where it is transparent. Colour profiles are
 * left alone, for models have been trained on images whose were.
 * @param file PNG, JPEG, WebP, or GIF, of which the first picture is taken.
 * @throws InvalidRequestError where it is none of them, is damaged, or has too many pixels.
 */
export async function decodeImage(file: Uint8Array): Promise<Pixels> {
  // Other readers of sharp never see a byte.
  if (imageFormat(file) === null) {
    throw invalid(`an image must be a file of one of the formats ${IMAGE_FORMATS}`);
  }
  const sharp = await loadSharp();
  const { width, height } = await sharp(file, { limitInputPixels: false }).metadata().catch(refuse);
  if (width * height > MAX_PIXELS || Math.max(width, height) > MAX_SIDE) {
    throw invalid(
      `an image may have ${MAX_PIXELS} pixels and sides of ${MAX_SIDE} at most, got one of ${width} x ${height}: send a smaller one`,
    );
  }
  const { data, info } = await sharp(file, {
    limitInputPixels: MAX_PIXELS,
    // Small faults do not hide what an image shows.
    failOn: 'error',
    autoOrient: true,
    ignoreIcc: true,
  })
    .timeout({ seconds: MAX_SECONDS })
    .toColourspace('srgb')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true })
    .catch(refuse);
  return {
    width: info.width,
    height: info.height,
    data: info.channels === CHANNELS ? data : onWhite(data),
  };
}

/** The cores belong to the model, and no image comes twice. */
async function loadSharp(): Promise<typeof import('sharp').default> {
  const { default: sharp } = await import('sharp');
  sharp.cache(false);
  sharp.concurrency(1);
  return sharp;
}

function refuse(cause: unknown): never {
  // A decoder says on more lines what followed from the first fault; after a colon it may have nothing to say.
  const [reason] = messageOf(cause).split(/:?\s*(?:\n|$)/);
  throw invalid(
    `an image cannot be read: ${reason}; send a whole file of one of the formats ${IMAGE_FORMATS}`,
    cause,
  );
}

function invalid(message: string, cause?: unknown): InvalidRequestError {
  return new InvalidRequestError(message, { param: 'messages', cause });
}

/** @param data of each pixel red, green, blue and how little is seen through it. */
function onWhite(data: Uint8Array): Uint8Array {
  const numPixels = data.length / (CHANNELS + 1);
  const opaque = new Uint8Array(numPixels * CHANNELS);
  for (let pixel = 0; pixel < numPixels; pixel++) {
    const opacity = data[pixel * (CHANNELS + 1) + CHANNELS]!;
    for (let channel = 0; channel < CHANNELS; channel++) {
      const colour = data[pixel * (CHANNELS + 1) + channel]!;
      opaque[pixel * CHANNELS + channel] = Math.round((colour * opacity + 255 * (255 - opacity)) / 255);
    }
  }
  return opaque;
}
