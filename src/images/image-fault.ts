// Why the image of a request cannot be had, and how large one may be.

import { InvalidRequestError } from '../errors.ts';
import { MAX_BYTES_OF_IMAGES } from '../util/image-source.ts';

/** Bytes of one file. */
export const MAX_IMAGE_BYTES = 20 * 1024 * 1024;

/** @param path of the part of the request that has it. */
export function imageFault(path: string, why: string, cause?: unknown): InvalidRequestError {
  return new InvalidRequestError(`${path}: ${why}`, { param: 'messages', cause });
}

export function tooLarge(path: string): InvalidRequestError {
  return imageFault(path, `the image has more than ${MAX_IMAGE_BYTES} bytes: send a smaller one`);
}

/** @param path of the image with which there are too many bytes. */
export function tooMuch(path: string): InvalidRequestError {
  return imageFault(
    path,
    `with this image the images of the request have more than ${MAX_BYTES_OF_IMAGES} bytes: send fewer, or smaller ones`,
  );
}
