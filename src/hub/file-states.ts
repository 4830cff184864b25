// The state of paths on this machine's disk, and the error for a path that cannot be written.

import { access, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ModelLoadError, messageOf } from '../errors.ts';

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Bytes of a file, null where there is none. */
export async function sizeOf(path: string): Promise<number | null> {
  return stat(path).then(
    ({ size }) => size,
    () => null,
  );
}

/** Bytes of all files in a folder and its folders, links not counted. */
export async function bytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map(({ parentPath, name }) => sizeOf(join(parentPath, name))));
  return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
}

/** For an error of the file system at `path`. */
export function cannotWrite(error: unknown, path: string): ModelLoadError {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  const what =
    code === 'ENOSPC' || code === 'EDQUOT'
      ? 'the disk is full: free some space, or give --download-dir a folder on another disk'
      : `${messageOf(error)}: give --download-dir a folder that svc may write to`;
  return new ModelLoadError(`${path} cannot be written: ${what}`, { cause: error });
}

/** Whether the file system refused a call. */
export function isFileError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && 'code' in error;
}
