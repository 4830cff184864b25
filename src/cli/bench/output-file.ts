// The files that a measurement writes what it found to.

import { access, constants, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ConfigError, messageOf } from '../../errors.ts';

/**
 * Asked before anything is measured, which may take hours.
 * @param option that names the file.
 * @param path null and undefined are none, `-` is stdout.
 * @throws ConfigError where it cannot be written.
 */
export async function expectWritable(option: string, path: string | null | undefined): Promise<void> {
  if (path === null || path === undefined || path === '-') return;
  try {
    const found = await stat(path).catch(() => null);
    if (found?.isDirectory()) throw new Error('it is a folder');
    await access(found === null ? dirname(path) : path, constants.W_OK);
  } catch (error) {
    throw unwritable(option, path, error);
  }
}

/** @throws ConfigError where it cannot be written. */
export async function writeOutput(option: string, path: string, text: string): Promise<void> {
  await writeFile(path, text).catch((error: unknown) => {
    throw unwritable(option, path, error);
  });
}

function unwritable(option: string, path: string, error: unknown): ConfigError {
  return new ConfigError(`--${option} ${path} cannot be written: ${messageOf(error)}`, { param: option });
}
