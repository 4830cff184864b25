// The folder to load: the model that was named, or else the chat model that svc brings along.

import { fileURLToPath } from 'node:url';
import type { DownloadOptions } from '../hub/download.ts';
import { resolveModel } from '../hub/resolve-model.ts';

/** What clients call the model that svc brings along. */
export const BUNDLED_MODEL_NAME = 'svc-chat';

/** The same place from src/ and from dist/. */
const BUNDLED_MODEL_FOLDER = fileURLToPath(new URL(`../../models/${BUNDLED_MODEL_NAME}`, import.meta.url));

/**
 * @param nameOrPath a folder or a name on the hub; empty is the bundled model.
 * @throws ModelLoadError where there is no such model.
 */
export async function modelFolder(nameOrPath: string, options: DownloadOptions = {}): Promise<string> {
  return nameOrPath === '' ? BUNDLED_MODEL_FOLDER : resolveModel(nameOrPath, options);
}
