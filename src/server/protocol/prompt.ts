// The `prompt` of a completion, and the `input` of embeddings, in their four forms: one or several texts, one or several lists of token ids.

import * as z from 'zod';
import { jsonForms } from '../../util/json-schema.ts';

/** Long lists come packed, see `parseJsonBody`. */
type TokenIds = readonly number[] | Int32Array;

/** One prompt of a request. */
export type CompletionPrompt = { readonly text: string } | { readonly tokenIds: TokenIds };

/** Where a prompt is wrong and why; the path is below `prompt`. */
interface Fault {
  readonly path: readonly number[];
  readonly rule: string;
  readonly isOfType: boolean;
}

/**
 * A prompt of any form becomes a list of prompts, at most `maxPrompts`. Written by hand because a list may hold a million ids: a
 * union of array schemas would report each of them as wrong in the other forms.
 */
export function promptsSchema(maxPrompts: number) {
  const schema = z.unknown().transform((value, context): CompletionPrompt[] => {
    const fault = faultOf(value, maxPrompts);
    if (fault === null) return toPrompts(value);
    context.addIssue(
      fault.isOfType
        ? { code: 'invalid_type', expected: 'string', path: [...fault.path], message: fault.rule }
        : { code: 'custom', path: [...fault.path], message: fault.rule },
    );
    return z.NEVER;
  });
  return schema.register(jsonForms, { form: () => formOf(maxPrompts) });
}

/** JSON Schema of the four forms. */
function formOf(maxItems: number): object {
  const text = { type: 'string', minLength: 1 };
  const ids = { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 };
  const listOf = (items: object): object => ({ type: 'array', items, minItems: 1, maxItems });
  return { anyOf: [text, listOf(text), ids, listOf(ids)] };
}

const FORMS = 'must be a text, an array of texts, an array of token ids or an array of arrays of token ids';
const ID_RULE = 'must be a token id, an integer of at least 0';

function faultOf(value: unknown, maxPrompts: number): Fault | null {
  if (typeof value === 'string') return value === '' ? wrong([], 'must not be empty') : null;
  if (!isList(value)) return { path: [], rule: FORMS, isOfType: true };
  if (value.length === 0) return wrong([], 'must not be empty');
  const [first] = value;
  if (typeof first === 'number') return idFault(value, []);
  if (typeof first !== 'string' && !isList(first)) return { path: [0], rule: FORMS, isOfType: true };
  if (value.length > maxPrompts) return wrong([], `must have at most ${maxPrompts} prompts`);
  return typeof first === 'string' ? textsFault(value) : idListsFault(value);
}

function textsFault(texts: readonly unknown[] | Int32Array): Fault | null {
  for (const [at, text] of texts.entries()) {
    if (typeof text !== 'string')
      return { path: [at], rule: 'must be a text like the first', isOfType: true };
    if (text === '') return wrong([at], 'must not be empty');
  }
  return null;
}

function idListsFault(lists: readonly unknown[] | Int32Array): Fault | null {
  for (const [at, list] of lists.entries()) {
    if (!isList(list))
      return { path: [at], rule: 'must be an array of token ids like the first', isOfType: true };
    if (list.length === 0) return wrong([at], 'must not be empty');
    const fault = idFault(list, [at]);
    if (fault !== null) return fault;
  }
  return null;
}

function idFault(ids: readonly unknown[] | Int32Array, path: readonly number[]): Fault | null {
  // Packed lists were checked when they were packed.
  if (ids instanceof Int32Array) return null;
  for (let at = 0; at < ids.length; at++) {
    const id = ids[at];
    if (Number.isSafeInteger(id) && Number(id) >= 0) continue;
    return { path: [...path, at], rule: ID_RULE, isOfType: typeof id !== 'number' };
  }
  return null;
}

function wrong(path: readonly number[], rule: string): Fault {
  return { path, rule, isOfType: false };
}

function isList(value: unknown): value is readonly unknown[] | Int32Array {
  return Array.isArray(value) || value instanceof Int32Array;
}

/** `value` has no fault. */
function toPrompts(value: unknown): CompletionPrompt[] {
  if (typeof value === 'string') return [{ text: value }];
  const list: readonly unknown[] | Int32Array = isList(value) ? value : [];
  if (typeof list[0] === 'number') return [{ tokenIds: toIds(list) }];
  return Array.from(list, (prompt) =>
    typeof prompt === 'string' ? { text: prompt } : { tokenIds: toIds(isList(prompt) ? prompt : []) },
  );
}

function toIds(list: readonly unknown[] | Int32Array): TokenIds {
  return list instanceof Int32Array ? list : list.map(Number);
}
