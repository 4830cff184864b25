// A request body becomes a checked object, or an error that a person can act on. Every POST route calls it first.

import type { z } from 'zod';
import { InvalidRequestError, MalformedRequestError } from '../../errors.ts';
import { describeIssue, preview } from '../../util/describe-issue.ts';

/** Errors shown at once. */
const MAX_SHOWN = 10;
/** Values in the body beside the prompt; checking many more would only serve to slow the server down. */
const MAX_VALUES = 100_000;
/** Checked by its own linear scan: a list of a million token ids is a request like any other. */
const UNCOUNTED = new Set(['prompt']);

/**
 * @throws MalformedRequestError for a body that is no object or has a field of the wrong type.
 * @throws InvalidRequestError for a value out of range.
 */
export function parseBody<S extends z.ZodObject>(schema: S, body: unknown): z.output<S> {
  if (body === undefined) throw new MalformedRequestError('The request has no body: send a JSON object');
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new MalformedRequestError(`The body must be a JSON object, got ${preview(body)}`);
  }
  checkSize(body);
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw toRequestError(parsed.error.issues, body);
}

function toRequestError(issues: readonly z.core.$ZodIssue[], body: object): Error {
  const described = issues.slice(0, MAX_SHOWN).map((issue) => describeIssue(issue, body));
  const more = issues.length > MAX_SHOWN ? `; and ${issues.length - MAX_SHOWN} more` : '';
  const count = issues.length > 1 ? `${issues.length} validation errors: ` : '';
  const message = `${count}${described.join('; ')}${more}`;
  const param = String(issues[0]?.path[0] ?? '') || undefined;
  const isOfType = issues.some(({ code }) => code === 'invalid_type' || code === 'invalid_union');
  return isOfType
    ? new MalformedRequestError(message, { param })
    : new InvalidRequestError(message, { param });
}

function checkSize(body: object): void {
  let numValues = 0;
  for (const [field, value] of Object.entries(body)) {
    if (!UNCOUNTED.has(field)) numValues += countValues(value, MAX_VALUES);
    if (numValues > MAX_VALUES) {
      throw new InvalidRequestError(
        `The body holds more than ${MAX_VALUES} values, most of them in ${field}`,
        {
          param: field,
        },
      );
    }
  }
}

/** Stops soon after `limit`. */
function countValues(value: unknown, limit: number): number {
  if (typeof value !== 'object' || value === null) return 1;
  let count = 1;
  for (const element of Array.isArray(value) ? value : Object.values(value)) {
    count += countValues(element, limit - count);
    if (count > limit) break;
  }
  return count;
}
