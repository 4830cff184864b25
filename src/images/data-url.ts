// Reads the image that a data: URL holds.

import { preview } from '../util/preview.ts';
import { imageFault, MAX_IMAGE_BYTES, tooLarge } from './image-fault.ts';

/** Characters before the comma: real ones have a few dozen. */
const MAX_HEAD = 256;
const HEAD = /^data:image\/[\w.+-]+(;[\w.+-]+=[^;,]*)*;base64$/i;
/** Characters of the largest image. */
const MAX_ENCODED = Math.ceil(MAX_IMAGE_BYTES / 3) * 4;

/** @throws InvalidRequestError naming `path`, where it is not the base64 of something that is said to be an image. */
export function readDataUrl(url: string, path: string): Uint8Array {
  const comma = url.slice(0, MAX_HEAD).indexOf(',');
  if (comma < 0 || !HEAD.test(url.slice(0, comma))) {
    throw imageFault(path, `a data: URL must begin like data:image/png;base64, but this is ${preview(url)}`);
  }
  const encoded = url.slice(comma + 1);
  if (encoded.length > MAX_ENCODED) throw tooLarge(path);
  const bytes = Buffer.from(encoded, 'base64');
  // Whatever is no base64 is left out of the bytes, or ends them.
  const numDigits = encoded.length - (/={1,2}$/.exec(encoded.slice(-2))?.[0].length ?? 0);
  const isWhole = numDigits % 4 !== 1 && bytes.length === Math.floor((numDigits * 3) / 4);
  if (!isWhole || bytes.length === 0) {
    throw imageFault(path, 'the data of an image must be base64, without blanks');
  }
  return bytes;
}
