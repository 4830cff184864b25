// Reads the JSON files of a model folder; what is wrong with one becomes a ModelLoadError that names file and field.

import type { z } from 'zod';
import { ModelLoadError } from '../errors.ts';
import { readModelText } from '../util/model-file.ts';

/** The file's content as `schema` sees it, or null where there is no such file. */
export function readJsonIfPresent<T extends z.ZodType>(path: string, schema: T): z.infer<T> | null {
  const text = readModelText(path);
  return text === null ? null : parseJson(path, text, schema);
}

/** @throws ModelLoadError when `text` is no JSON or does not fit `schema`; `path` is for the message. */
export function parseJson<T extends z.ZodType>(path: string, text: string, schema: T): z.infer<T> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ModelLoadError(`${path} is not valid JSON: ${(cause as SyntaxError).message}`, { cause });
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const field = issue?.path.join('.') || 'the file';
  throw new ModelLoadError(`${path}: ${field}: ${issue?.message ?? 'invalid'}`, { cause: parsed.error });
}
