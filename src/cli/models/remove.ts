// svc models rm: gives the disk space of downloaded models back.

import { removeModel } from '../../hub/cached-models.ts';
import { bytes } from '../../util/bytes.ts';

/** @throws ModelLoadError at the first that cannot be removed. */
export async function removeModels(
  names: readonly string[],
  options: { readonly downloadDir?: string },
): Promise<void> {
  for (const name of names) {
    for (const { path, bytes: size } of await removeModel(name, options)) {
      process.stdout.write(`removed ${path}, ${bytes(size)}\n`);
    }
  }
}
