// Opens the files of a model folder. Only regular files: a pipe would block the reader for ever.

import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { ModelLoadError } from '../errors.ts';

/**
 * A descriptor to read from.
 * @throws ModelLoadError where the file cannot be read.
 */
export function openModelFile(path: string): number {
  const file = openIfPresent(path);
  if (file === null) throw new ModelLoadError(`${path} is missing; fetch the model again`);
  return file;
}

/**
 * The whole text, or null where there is no such file.
 * @throws ModelLoadError where it cannot be read.
 */
export function readModelText(path: string): string | null {
  const file = openIfPresent(path);
  if (file === null) return null;
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw unreadable(path, cause);
  } finally {
    closeSync(file);
  }
}

function openIfPresent(path: string): number | null {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw unreadable(path, cause);
  }
  const status = fstatSync(file);
  if (status.isFile()) return file;
  closeSync(file);
  throw new ModelLoadError(
    `${path} must be a file, it is a ${status.isDirectory() ? 'folder' : 'pipe or device'}`,
  );
}

function unreadable(path: string, cause: unknown): ModelLoadError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new ModelLoadError(`${path} cannot be read: ${reason}`, { cause });
}
