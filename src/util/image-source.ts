// Where an image of a request is to be had: what a part of a message, whatever the protocol, says of its image.

import { InvalidRequestError } from '../errors.ts';

/** Bytes of all images of one request, whether they come in its body or from elsewhere. */
export const MAX_BYTES_OF_IMAGES = 32 * 1024 * 1024;

export class ImageSource {
  /** A URL: `data:`, `http:` or `https:`. */
  readonly url: string;
  /** The part of the request that has it, for errors: `messages[1].content[0]`. */
  readonly path: string;

  constructor(url: string, path: string) {
    this.url = url;
    this.path = path;
  }
}

/**
 * @param maxImages null where the model reads only text.
 * @throws InvalidRequestError where a prompt has more images than it may have.
 */
export function checkNumImages(
  numImages: number,
  maxImages: number | null,
  { path, param }: { readonly path: string; readonly param: string },
): void {
  if (numImages <= (maxImages ?? 0)) return;
  const allowed =
    maxImages === null
      ? 'no images, because this model reads only text'
      : `at most ${maxImages} images (--limit-mm-per-prompt)`;
  throw new InvalidRequestError(`${path} must have ${allowed}, got ${numImages}`, { param });
}
