// Reads images without holding the main thread: a thread does it, one image after the other, callers in turn.

import { abortable } from '../util/abortable.ts';
import { CallThread } from '../util/call-thread.ts';
import type { Client } from '../util/client.ts';
import { MAX_BYTES_OF_IMAGES } from '../util/image-source.ts';
import type { ModelFiles } from '../util/model-files.ts';
import type { GivenFields } from './given-fields.ts';
import type { ImageProcessor, ReadImage } from './image-processor.ts';
import type { ImageSettings } from './image-settings.ts';
import { makeImageProcessor, readImageSettings } from './load-image-processor.ts';

/** Bytes of files that may wait: eight requests with as many as they may have. */
const MAX_WAITING_BYTES = 8 * MAX_BYTES_OF_IMAGES;
const DEADLINE_MS = 60_000;

export class ImageReader implements ImageProcessor {
  readonly mark: string;
  readonly placeholder: string;
  readonly #thread: CallThread<Uint8Array, ReadImage>;

  /** @throws as `loadImageProcessor`. */
  constructor(settings: ImageSettings) {
    const { mark, placeholder } = makeImageProcessor(settings);
    this.mark = mark;
    this.placeholder = placeholder;
    this.#thread = new CallThread(new URL('./image-thread', import.meta.url), {
      name: 'svc-image',
      data: { settings },
      deadlineMs: DEADLINE_MS,
      maxWaiting: MAX_WAITING_BYTES,
      sizeOf: ({ byteLength }) => byteLength,
    });
  }

  /**
   * @param client for whom it is: a file that nobody waits for any more is not read.
   * @throws also OverloadedError where too many bytes wait already; the reason of an abort.
   */
  read(file: Uint8Array, { caller, signal }: Client = {}): Promise<ReadImage> {
    // The same file may be waited for twice: this is the order of one of them.
    const order = file.subarray();
    return abortable(signal, (ended) => {
      ended.addEventListener('abort', () => this.#thread.withdraw(order), { once: true });
      return this.#thread.call(order, { caller });
    });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/** Options, null and errors as of `loadImageProcessor`. */
export function loadImageReader(files: ModelFiles, given: GivenFields = {}): ImageReader | null {
  const settings = readImageSettings(files, given);
  return settings && new ImageReader(settings);
}
