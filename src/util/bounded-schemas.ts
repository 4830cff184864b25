// Schemas of lists and maps from clients. Their length is checked first, and the check ends at the first wrong element: a
// list of thousands of wrong values costs as much as one.

import * as z from 'zod';
import { jsonForms, jsonSchemaOf } from './json-schema.ts';

/** An array of at most `maxLength` elements; the check does not change them. */
export function listOf<T extends z.ZodType>(
  element: T,
  maxLength: number,
): z.ZodCustom<z.output<T>[], z.output<T>[]> {
  const form = (): object => ({ type: 'array', items: jsonSchemaOf(element), maxItems: maxLength });
  const check = (list: unknown): Issues | null =>
    lengthFault(list, maxLength) ?? elementFault(list, element, () => false);
  return checkedList<z.output<T>>(check).register(jsonForms, { form });
}

const tokenId = z.int().nonnegative();

/** The same of token ids, quick enough for as many as a vocabulary has. */
export function tokenIdsOf(maxLength: number): z.ZodCustom<number[], number[]> {
  const items = { type: 'integer', minimum: 0 };
  const form = (): object => ({ type: 'array', items, maxItems: maxLength });
  const check = (list: unknown): Issues | null =>
    lengthFault(list, maxLength) ?? elementFault(list, tokenId, isTokenId);
  return checkedList<number>(check).register(jsonForms, { form });
}

function isTokenId(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** An object of at most `maxFields` fields, called `what` in errors; a schema piped after it checks the fields. */
export function atMost<T extends object>(maxFields: number, what: string): z.ZodCustom<T, T> {
  const countFields = (map: unknown): number =>
    typeof map === 'object' && map !== null ? Object.keys(map).length : 0;
  const error = `must have at most ${maxFields} ${what}`;
  const form = (): object => ({ type: 'object', maxProperties: maxFields });
  const schema = z.custom<T>().refine((map) => countFields(map) <= maxFields, { error, abort: true });
  return schema.register(jsonForms, { form });
}

type Issues = z.core.$ZodRawIssue[];

function checkedList<T>(faultOf: (list: unknown) => Issues | null): z.ZodCustom<T[], T[]> {
  return z.custom<T[]>().check(({ value, issues }) => {
    const fault = faultOf(value);
    if (fault !== null) issues.push(...fault);
  });
}

function lengthFault(list: unknown, maximum: number): Issues | null {
  if (!Array.isArray(list)) return [{ code: 'invalid_type', expected: 'array', input: list }];
  if (list.length <= maximum) return null;
  return [{ code: 'too_big', origin: 'array', maximum, inclusive: true, input: list }];
}

/** @param isRight finds most right elements without the cost of the schema. */
function elementFault(
  list: unknown,
  element: z.ZodType,
  isRight: (value: unknown) => boolean,
): Issues | null {
  const values: readonly unknown[] = Array.isArray(list) ? list : [];
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    const parsed = isRight(value) ? null : element.safeParse(value);
    if (parsed === null || parsed.success) continue;
    return parsed.error.issues.map((issue) => ({ ...issue, input: undefined, path: [index, ...issue.path] }));
  }
  return null;
}

/**
 * `schema` behind a check of the size, about `maxSize` characters and at most `maxDepth` values inside of each other: so it may
 * walk the value whole, and recursively.
 */
export function bounded<Out, In>(schema: z.ZodType<Out, In>, maxSize: number, maxDepth: number) {
  const isSmall = z.custom<In>().check(({ value, issues }) => {
    const fault = sizeFault(value, maxSize, maxDepth);
    if (fault !== null) issues.push({ code: 'custom', message: fault, input: undefined, continue: false });
  });
  return isSmall.pipe(schema).register(jsonForms, { form: () => jsonSchemaOf(schema) });
}

function sizeFault(whole: unknown, maxSize: number, maxDepth: number): string | null {
  let size = 0;
  const open: { readonly value: unknown; readonly depth: number }[] = [{ value: whole, depth: 1 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, depth } = next;
    if (depth > maxDepth) return `must have at most ${maxDepth} values inside of each other`;
    size += typeof value === 'string' ? value.length : 1;
    if (typeof value === 'object' && value !== null) {
      size += Object.keys(value).length;
      if (size <= maxSize) {
        for (const [key, member] of Object.entries(value)) {
          if (!Array.isArray(value)) size += key.length;
          open.push({ value: member, depth: depth + 1 });
        }
      }
    }
    if (size > maxSize) return `must have at most about ${maxSize} characters`;
  }
  return null;
}
