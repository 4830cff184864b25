// Reads images without holding the main thread: a thread does it, one image after the other, callers in turn.

import { CallThread } from '../util/call-thread.ts';
import type { ModelFiles } from '../util/model-files.ts';
import type { ImageProcessor, ReadImage } from './image-processor.ts';
import type { ImageSettings } from './image-settings.ts';
import { makeImageProcessor, readImageSettings } from './load-image-processor.ts';

const LIMITS = { deadlineMs: 60_000, maxWaiting: 256 } as const;

export class ImageReader implements ImageProcessor {
  readonly mark: string;
  readonly placeholder: string;
  readonly #thread: CallThread<Uint8Array, ReadImage>;

  /** @throws ModelLoadError as `loadImageProcessor`. */
  constructor(settings: ImageSettings) {
    const { mark, placeholder } = makeImageProcessor(settings);
    this.mark = mark;
    this.placeholder = placeholder;
    this.#thread = new CallThread(new URL('./image-thread', import.meta.url), {
      name: 'svc-image',
      data: { settings },
      ...LIMITS,
    });
  }

  /**
   * @param caller the others have their turns between two images of one.
   * @throws also OverloadedError where too many images wait already.
   */
  read(file: Uint8Array, caller?: string): Promise<ReadImage> {
    return this.#thread.call(file, { caller });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/** Null and errors as of `loadImageProcessor`. */
export function loadImageReader(files: ModelFiles): ImageReader | null {
  const settings = readImageSettings(files);
  return settings && new ImageReader(settings);
}
