// Prompts with images as an engine core gets them, made ready as a server makes them.

import { imageKeys } from '../../src/engine/image-inputs.ts';
import { readModelText } from '../../src/engine/model-text.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { ENGINE_DEFAULTS } from './engine-defaults.ts';
import { type NewRequestParts, newRequest } from './new-request.ts';

interface ImagePrompt extends NewRequestParts {
  /** With a mark for each image. */
  readonly text: string;
  readonly files: readonly Uint8Array[];
}

/** @param folder of the model; a request has the place of its prompt as its id. */
export async function imageRequests(folder: string, prompts: readonly ImagePrompt[]): Promise<NewRequest[]> {
  const { tokenizer, imageInputs } = await readModelText({ ...ENGINE_DEFAULTS, modelPath: folder });
  try {
    return await Promise.all(
      prompts.map(async ({ text, files, extraKeys = [], ...parts }, id) => {
        const { text: whole, images } = await imageInputs!.read(text, files, {});
        const promptTokenIds = await tokenizer!.encode(whole, { addSpecialTokens: true });
        const placed = imageInputs!.place(promptTokenIds, images);
        const keys = [...extraKeys, ...imageKeys(placed)];
        return newRequest({ id, ...parts, promptTokenIds, images: placed, extraKeys: keys });
      }),
    );
  } finally {
    await Promise.all([imageInputs?.close(), tokenizer?.close()]);
  }
}
