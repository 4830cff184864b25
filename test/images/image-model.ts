// The files of a model that say what becomes of its images, without the rest of it.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FolderFiles } from '../../src/util/model-files.ts';

export interface ImageModel {
  readonly config: object;
  readonly images?: object;
  readonly processor?: object;
}

/** Writes them to `folder`, which does not exist yet. */
export function imageModel(folder: string, { config, images, processor }: ImageModel): FolderFiles {
  mkdirSync(folder);
  const write = (name: string, content: object | undefined): void => {
    if (content !== undefined) writeFileSync(join(folder, name), JSON.stringify(content));
  };
  write('config.json', config);
  write('preprocessor_config.json', images);
  write('processor_config.json', processor);
  return new FolderFiles(folder);
}
