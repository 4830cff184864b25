// Opens and checks the files of a model; errors name the file and the field. Only regular files are opened: a pipe would
// block the reader for ever.

import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import type * as z from 'zod';
import { ModelLoadError, messageOf } from '../errors.ts';
import { parsePythonJson } from './python-json.ts';
import { zodMessage } from './zod-message.ts';

export interface ModelText {
  readonly path: string;
  readonly text: string;
}

export interface ModelBytes {
  readonly path: string;
  readonly bytes: Buffer;
}

/** Whether a path names a GGUF file, in whatever case it ends. */
export function isGgufPath(path: string): boolean {
  return /\.gguf$/i.test(path);
}

/** Whether a path names what a model in GGUF files sees images with: it is published beside models, and is none. */
export function isImageEncoderPath(path: string): boolean {
  return isGgufPath(path) && /mmproj[^/]*$/i.test(path);
}

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
export function readModelText(path: string): ModelText | null {
  const file = readModelBytes(path);
  return file && { path, text: file.bytes.toString('utf8') };
}

/** The same of a file that is no text. */
export function readModelBytes(path: string): ModelBytes | null {
  const file = openIfPresent(path);
  if (file === null) return null;
  try {
    return { path, bytes: readFileSync(file) };
  } catch (cause) {
    throw unreadable(path, cause);
  } finally {
    closeSync(file);
  }
}

/**
 * Numbers that JSON has no words for, which Python writes, are null.
 * @param expected what the file should be, for the message.
 * @throws ModelLoadError where the text is not JSON or does not fit `schema`.
 */
export function parseModelJson<T extends z.ZodType>(
  file: ModelText,
  schema: T,
  expected?: string,
): z.output<T> {
  let value: unknown;
  try {
    value = parsePythonJson(file.text);
  } catch (cause) {
    throw new ModelLoadError(`${file.path} is not valid JSON: ${messageOf(cause)}${hint(expected)}`, {
      cause,
    });
  }
  return checkModelJson(file.path, value, schema, expected);
}

/** The same of JSON that is parsed already. */
export function checkModelJson<T extends z.ZodType>(
  path: string,
  value: unknown,
  schema: T,
  expected?: string,
): z.output<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const reason = zodMessage(parsed.error, value, 'the file');
  throw new ModelLoadError(`${path}: ${reason}${hint(expected)}`, { cause: parsed.error });
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
  return new ModelLoadError(`${path} cannot be read: ${messageOf(cause)}`, { cause });
}

function hint(expected: string | undefined): string {
  return expected === undefined ? '' : `; expected ${expected}`;
}
