// Puts images into a prompt: in its text their marks become the placeholders of their tokens, and among its tokens each image gets its own.

import { InvalidRequestError } from '../errors.ts';
import type { ImageProcessor, PreparedImage, PromptImage, ReadImage } from '../images/image-processor.ts';
import type { ExtraKey } from '../kv-cache/prefix-hash.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

/** A prompt whose images are placeholders, and these images in order. */
interface TextWithImages {
  readonly text: string;
  readonly images: readonly PreparedImage[];
}

export class ImageInputs {
  readonly processor: ImageProcessor;
  readonly #placeholderId: number;

  private constructor(processor: ImageProcessor, placeholderId: number) {
    this.processor = processor;
    this.#placeholderId = placeholderId;
  }

  /** Null where images cannot be put into prompts, since the tokenizer has no token for them. */
  static async open(processor: ImageProcessor, tokenizer: Tokenizer): Promise<ImageInputs | null> {
    const ids = await tokenizer.encode(processor.placeholder, { addSpecialTokens: false });
    return ids.length === 1 ? new ImageInputs(processor, ids[0]!) : null;
  }

  /**
   * @param text with one mark for each image
   * @param files of the images, in the order of their marks
   * @throws InvalidRequestError where a file is no image, or a text has marks of its own.
   */
  async read(text: string, files: readonly Uint8Array[]): Promise<TextWithImages> {
    const { mark } = this.processor;
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
    for (const file of files) images.push(await this.processor.read(file));
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
        `the prompt has ${places.length} tokens ${this.processor.placeholder}, its images have ${wanted}: texts must not contain it`,
        { param: 'messages' },
      );
    }
    let next = 0;
    return images.map((image) => {
      next += image.numTokens;
      return { image, positions: places.slice(next - image.numTokens, next) };
    });
  }
}

/** What keys and values of a prompt depend on because of its images. */
export function imageKeys(images: readonly PromptImage[]): ExtraKey[] {
  return images.map(({ image, positions }) => ({ position: positions[0]!, key: ['image', image.hash] }));
}
