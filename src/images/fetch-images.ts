// Gets the files of a request's images from where it says that they are: in itself, on the web, or in a file of a program's machine.

import { readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { InvalidRequestError, messageOf } from '../errors.ts';
import { abortable } from '../util/abortable.ts';
import { type ImageSource, MAX_BYTES_OF_IMAGES } from '../util/image-source.ts';
import { readDataUrl } from './data-url.ts';
import type { ImageWeb, WebOptions } from './fetch-web-image.ts';
import { imageFault, MAX_IMAGE_BYTES, tooLarge, tooMuch } from './image-fault.ts';

const IN_ITSELF = /^data:/i;
const DEADLINE_MS = 10_000;
/** A request is not to ask one host for everything at the same time. */
const FETCHED_AT_ONCE = 4;

interface FetchOptions {
  /** The only hosts that are asked, as URLs have them; none are all that are on the public web. */
  readonly domains: readonly string[];
  /** Ends it. */
  readonly signal?: AbortSignal | undefined;
  /** Whether `file:` URLs are read: for a program, not for the clients of a server. */
  readonly readsFiles?: boolean;
  readonly deadlineMs?: number;
}

/**
 * @returns the files, in the order of `sources`; none is larger than `MAX_IMAGE_BYTES`, and together they have `MAX_BYTES_OF_IMAGES` at
 * most.
 * @throws InvalidRequestError naming the part of the request whose image cannot be had; the reason of an abort.
 */
export async function fetchImages(
  sources: readonly ImageSource[],
  { domains, signal, readsFiles = false, deadlineMs = DEADLINE_MS }: FetchOptions,
): Promise<Uint8Array[]> {
  const files: Uint8Array[] = [];
  let numBytes = 0;
  const rest = sources.entries();
  const inFile = (url: string): boolean => readsFiles && /^file:/i.test(url);
  const isElsewhere = sources.some(({ url }) => !IN_ITSELF.test(url) && !inFile(url));
  const web = isElsewhere ? await openWeb({ domains, deadlineMs }) : null;
  try {
    await abortable(signal, async (ended) => {
      const work = async (): Promise<void> => {
        for (const [index, { url, path }] of rest) {
          if (IN_ITSELF.test(url)) files[index] = readDataUrl(url, path);
          else if (inFile(url)) files[index] = await readImageFile(url, path);
          else files[index] = await web!.fetch(url, path, ended);
          numBytes += files[index].byteLength;
          if (numBytes > MAX_BYTES_OF_IMAGES) throw tooMuch(path);
        }
      };
      await Promise.all(Array.from({ length: FETCHED_AT_ONCE }, work));
    });
    return files;
  } finally {
    await web?.close();
  }
}

/** Its modules take a while to load, and most requests need none of them. */
async function openWeb(options: WebOptions): Promise<ImageWeb> {
  const { ImageWeb } = await import('./fetch-web-image.ts');
  return new ImageWeb(options);
}

async function readImageFile(url: string, path: string): Promise<Uint8Array> {
  try {
    const file = fileURLToPath(url);
    const found = await stat(file);
    // A pipe may never end.
    if (!found.isFile()) throw imageFault(path, `${url} is no file`);
    if (found.size > MAX_IMAGE_BYTES) throw tooLarge(path);
    return await readFile(file);
  } catch (error) {
    throw error instanceof InvalidRequestError
      ? error
      : imageFault(path, `${url} cannot be read: ${messageOf(error)}`, error);
  }
}
