// Puts images into a prompt: in its text their marks become the placeholders of their tokens, and among its tokens each image gets its own.

import { InvalidRequestError } from '../errors.ts';
import {
  numBytesOf,
  type PreparedImage,
  type PromptImage,
  type ReadImage,
} from '../images/image-processor.ts';
import type { ImageReader } from '../images/image-reader.ts';
import type { ExtraKey } from '../kv-cache/prefix-hash.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import type { Client } from '../util/client.ts';

/** A prompt whose images are placeholders, and these images in order. */
interface TextWithImages {
  readonly text: string;
  readonly images: readonly PreparedImage[];
}

export class ImageInputs {
  readonly #reader: ImageReader;
  readonly #placeholderId: number;

  private constructor(reader: ImageReader, placeholderId: number) {
    this.#reader = reader;
    this.#placeholderId = placeholderId;
  }

  /** Null where images cannot be put into prompts, since the tokenizer has no token for them. */
  static async open(reader: ImageReader, tokenizer: Tokenizer): Promise<ImageInputs | null> {
    const ids = await tokenizer.encode(reader.placeholder, { addSpecialTokens: false });
    return ids.length === 1 ? new ImageInputs(reader, ids[0]!) : null;
  }

  /**
   * @param text with one mark for each image
   * @param files of the images, in the order of their marks
   * @throws InvalidRequestError where a file is no image, or a text has marks of its own; OverloadedError where too many images wait, or
   * have no memory; the reason of an abort.
   */
  async read(text: string, files: readonly Uint8Array[], client: Client): Promise<TextWithImages> {
    const { mark } = this.#reader;
    const [first, ...others] = text.split(mark);
    if (others.length !== files.length) {
      throw new InvalidRequestError(
        `the prompt has ${others.length} marks of images (${mark}) for ${files.length} images: each image needs one, and texts must not ` +
          'contain it',
        { param: 'messages' },
      );
    }
    const images: ReadImage[] = [];
    // One after the other: pixels take more memory than files.
    for (const [index, file] of files.entries()) {
      const read = await this.#reader.read(file, client).catch((error: unknown) => {
        throw files.length > 1 ? naming(error, index, files.length) : error;
      });
      // At once: a file of few bytes may be megabytes of patches.
      client.hold?.(numBytesOf(read.image));
      images.push(read);
    }
    return {
      text: others.reduce((before, after, index) => before + images[index]!.text + after, first!),
      images: images.map(({ image }) => image),
    };
  }

  /** @throws InvalidRequestError where a text has placeholders of its own. */
  place(ids: readonly number[], images: readonly PreparedImage[]): PromptImage[] {
    const places = ids.flatMap((id, position) => (id === this.#placeholderId ? [position] : []));
    const wanted = images.reduce((sum, { numTokens }) => sum + numTokens, 0);
    if (places.length !== wanted) {
      throw new InvalidRequestError(
        `the prompt has ${places.length} tokens ${this.#reader.placeholder}, its images have ${wanted}: texts must not contain it`,
        { param: 'messages' },
      );
    }
    let next = 0;
    return images.map((image) => {
      next += image.numTokens;
      return { image, positions: places.slice(next - image.numTokens, next) };
    });
  }

  close(): Promise<void> {
    return this.#reader.close();
  }
}

/** The same error, where it is about the image, says which of several that is. */
function naming(error: unknown, index: number, count: number): unknown {
  if (!(error instanceof InvalidRequestError)) return error;
  const { message, param } = error;
  return new InvalidRequestError(`${message} (image ${index + 1} of ${count})`, {
    cause: error,
    param: param ?? undefined,
  });
}

/** What keys and values of a prompt depend on because of its images. */
export function imageKeys(images: readonly PromptImage[]): ExtraKey[] {
  return images.map(({ image, positions }) => ({ position: positions[0]!, key: ['image', image.hash] }));
}
