// An image that a person names by its file or its address becomes a part of a message.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { InvalidRequestError } from '../../errors.ts';
import { fetchImages } from '../../images/fetch-images.ts';
import { IMAGE_FORMATS, imageFormat } from '../../images/image-format.ts';
import { ImageSource } from '../../util/image-source.ts';
import type { ImagePart } from '../api-client.ts';
import { typedPath } from './typed-path.ts';

/**
 * @param given a file, or an address on the web, which the server fetches.
 * @throws InvalidRequestError where it is no file of an image.
 */
export async function attachedImage(given: string): Promise<ImagePart> {
  if (given === '') throw new InvalidRequestError('an image is missing: /image <file or URL>');
  if (/^https?:/i.test(given)) return imagePart(given);
  const source = new ImageSource(pathToFileURL(resolve(typedPath(given))).href, '/image');
  const [file] = await fetchImages([source], { domains: [], readsFiles: true });
  const format = imageFormat(file!);
  if (format === null) throw new InvalidRequestError(`${given} is none of ${IMAGE_FORMATS}`);
  return imagePart(`data:image/${format};base64,${Buffer.from(file!).toString('base64')}`);
}

function imagePart(url: string): ImagePart {
  return { type: 'image_url', image_url: { url } };
}
