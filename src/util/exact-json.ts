// JSON whose numbers keep what was written, for texts that show them again: JSON.parse takes digits from large whole
// numbers, and from floats that are whole their point.

import { type Node, parseTree, visit } from 'jsonc-parser';

/** Longer numbers are doubles: to read them takes time that grows faster than they do. Python refuses them. */
const MAX_DIGITS = 4300;

/**
 * What JSON.parse gives, but that a whole number that is not safe is a bigint, and a float that is whole, such as 1.0 or
 * 1e20, a Number object. Both pass between threads.
 * @param text JSON that JSON.parse takes.
 */
export function parseExactJson(text: string): unknown {
  const root = parseTree(text);
  return root === undefined ? undefined : exactValue(root, text);
}

function exactValue({ type, value, children = [], offset, length }: Node, text: string): unknown {
  if (type === 'number') return exactNumber(text.slice(offset, offset + length));
  if (type === 'array') return children.map((element) => exactValue(element, text));
  if (type !== 'object') return value;
  const fields = children.flatMap(({ children: [name, field] = [] }) =>
    name === undefined || field === undefined ? [] : [[name.value, exactValue(field, text)] as const],
  );
  return Object.fromEntries(fields);
}

function exactNumber(written: string): unknown {
  const double = Number(written);
  const isFloat = /[.e]/i.test(written);
  if (isFloat) return Number.isInteger(double) ? Object(double) : double;
  return Number.isSafeInteger(double) || written.length > MAX_DIGITS ? double : BigInt(written);
}

/**
 * The text of the object that `text`, an object itself, has in the field `name`; null where that is missing or no object.
 * Of several such fields it is the last one, as for JSON.parse.
 */
export function textOfObjectField(text: string, name: string): string | null {
  let depth = 0;
  let start: number | null = null;
  let found: string | null = null;
  let isWanted = false;
  const open = (offset: number): void => {
    depth += 1;
    if (depth === 2 && isWanted) start = offset;
  };
  const close = (offset: number, length: number): void => {
    if (depth === 2 && start !== null) found = text.slice(start, offset + length);
    if (depth === 2) start = null;
    depth -= 1;
  };
  visit(text, {
    onObjectProperty: (property) => {
      if (depth !== 1) return;
      isWanted = property === name;
      if (isWanted) found = null;
    },
    onObjectBegin: open,
    onObjectEnd: close,
    onArrayBegin: () => {
      depth += 1;
    },
    onArrayEnd: () => {
      depth -= 1;
    },
  });
  return found;
}

/** Whether an exact parse of the text that became `value` may give something else. */
export function holdsWholeNumber(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return Number.isInteger(value);
  return Object.values(value).some(holdsWholeNumber);
}

/** The same value with doubles in it, as JSON.parse gives them. */
export function inDoubles<T>(value: T): T;
export function inDoubles(value: unknown): unknown {
  if (typeof value === 'bigint' || value instanceof Number) return Number(value);
  if (Array.isArray(value)) return value.map((element) => inDoubles(element));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, inDoubles(field)]));
}
