// Why the image of a request cannot be had, and how large one may be.

import { InvalidRequestError } from '../errors.ts';

/** Bytes of one file. */
export const MAX_IMAGE_BYTES = 20 * 1024 * 1024;

/** @param path of the part of the request that has it. */
export function imageFault(path: string, why: string, cause?: unknown): InvalidRequestError {
  return new InvalidRequestError(`${path}: ${why}`, { param: 'messages', cause });
}

export function tooLarge(path: string): InvalidRequestError {
  return imageFault(path, `the image has more than ${MAX_IMAGE_BYTES} bytes: send a smaller one`);
}
