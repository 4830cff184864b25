// A tiny random model of each architecture that a test file asks for, removed after it.

import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from './temporary-folder.ts';

/** Gives the folder of the model of an architecture, the same one each time. */
export function tinyModels(): (architecture: string) => string {
  const newFolder = temporaryFolders();
  const folders = new Map<string, string>();
  return (architecture) => {
    const folder = folders.get(architecture) ?? newFolder();
    if (!folders.has(architecture)) writeTinyModel(folder, { architecture, seed: 1 });
    folders.set(architecture, folder);
    return folder;
  };
}
