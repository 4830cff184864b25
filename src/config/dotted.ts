// Dotted options, `--attention-config.backend CPU_ATTN`: parts of a JSON option, merged into one object.

import { ConfigError } from '../errors.ts';
import { parseJson } from '../util/parse-json.ts';
import type { JsonObject } from './option-kinds.ts';

/** A part as JSON where it reads as such, else as text. */
export function partValue(text: string): unknown {
  return parseJson(text) ?? (text.trim() === 'null' ? null : text);
}

/**
 * `object` with `value` at `path`; a last step that ends in + appends to a list.
 * @throws ConfigError where a step of the path is a plain value already.
 */
export function nestPath(object: unknown, path: readonly string[], value: unknown): JsonObject {
  const [step = '', ...rest] = path;
  const base = asObject(object, path);
  if (rest.length > 0) return { ...base, [step]: nestPath(base[step], rest, value) };
  if (!step.endsWith('+')) return { ...base, [step]: value };
  const name = step.slice(0, -1);
  const before = base[name];
  const list = before === undefined ? [] : Array.isArray(before) ? before : [before];
  return { ...base, [name]: [...list, ...(Array.isArray(value) ? value : [value])] };
}

function asObject(value: unknown, path: readonly string[]): Record<string, unknown> {
  if (value === undefined || value === null) return {};
  const parsed = typeof value === 'string' ? parseJson(value) : value;
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return { ...parsed };
  throw new ConfigError(
    `${path.join('.')} cannot be set: what it belongs to is ${JSON.stringify(value)}, no object`,
  );
}
