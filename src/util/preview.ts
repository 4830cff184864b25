// Shortens values that a client chose for errors and logs: enough to recognise them, however long they are.

import { wholeCharacters } from './whole-characters.ts';

/** Characters of a text that are shown where nothing else is said. */
const MAX_SHOWN = 60;
/** Elements of a list, or fields of an object, that a summary has. */
const MAX_LISTED = 32;

/** `text`, or its beginning and an ellipsis, never half a character. */
export function shortened(text: string, maxLength = MAX_SHOWN): string {
  if (text.length <= maxLength) return text;
  // A slice keeps the whole text in memory: a copy does not.
  return `${Buffer.from(wholeCharacters(text, maxLength)).toString()}…`;
}

/** A value of any size in a few words. */
export function preview(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(shortened(value));
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return previewOfList(value);
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

function previewOfList(list: readonly unknown[] | ArrayBufferView): string {
  const length = 'length' in list ? Number(list.length) : 0;
  return length === 0 ? 'an empty array' : `an array of ${length}`;
}

/** The value itself where it is short; long texts in it are shortened, long lists are counted. */
export function summary(value: unknown): unknown {
  if (typeof value === 'string') return shortened(value);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value);
  if (fields.length > MAX_LISTED) return preview(value);
  if (Array.isArray(value)) return value.map(summary);
  return Object.fromEntries(fields.map(([name, field]) => [shortened(name), summary(field)]));
}
