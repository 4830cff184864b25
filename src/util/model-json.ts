// Checks the JSON that a model brings; what is wrong with it becomes a ModelLoadError that names file and field.

import type { z } from 'zod';
import { ModelLoadError } from '../errors.ts';
import type { ModelText } from './model-file.ts';

/**
 * @param expected what the file should be, for the message.
 * @throws ModelLoadError where the text is no JSON or does not fit `schema`.
 */
export function parseModelJson<T extends z.ZodType>(
  file: ModelText,
  schema: T,
  expected?: string,
): z.output<T> {
  let value: unknown;
  try {
    value = JSON.parse(file.text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ModelLoadError(`${file.path} is not valid JSON: ${reason}${hint(expected)}`, { cause });
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
  const issue = parsed.error.issues[0];
  const field = issue?.path.join('.') || 'the file';
  throw new ModelLoadError(`${path}: ${field}: ${issue?.message ?? 'invalid'}${hint(expected)}`, {
    cause: parsed.error,
  });
}

function hint(expected: string | undefined): string {
  return expected === undefined ? '' : `; expected ${expected}`;
}
