// Checks a request body against a schema; the error lists all faults, so that a person can fix them at once.

import type * as z from 'zod';
import { InvalidRequestError, MalformedRequestError } from '../errors.ts';
import { preview } from '../util/preview.ts';
import { describeIssue } from '../util/zod-message.ts';

const MAX_SHOWN = 10;
const MAX_FIELDS = 1024;

/**
 * @throws MalformedRequestError for a body that is no object or has a field of the wrong type.
 * @throws InvalidRequestError for a value out of range.
 */
export function parseBody<S extends z.ZodObject>(schema: S, body: unknown): z.output<S> {
  if (body === undefined) throw new MalformedRequestError('The request has no body: send a JSON object');
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new MalformedRequestError(`The body must be a JSON object, got ${preview(body)}`);
  }
  checkNumFields(body);
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw toRequestError(parsed.error.issues, body);
}

function toRequestError(issues: readonly z.core.$ZodIssue[], body: object): Error {
  const described = issues.slice(0, MAX_SHOWN).map((issue) => describeIssue(issue, body, 'The body'));
  const more = issues.length > MAX_SHOWN ? `; and ${issues.length - MAX_SHOWN} more` : '';
  const count = issues.length > 1 ? `${issues.length} validation errors: ` : '';
  const message = `${count}${described.join('; ')}${more}`;
  const param = String(issues[0]?.path[0] ?? '') || undefined;
  const isOfType = issues.some(({ code }) => code === 'invalid_type' || code === 'invalid_union');
  return isOfType
    ? new MalformedRequestError(message, { param })
    : new InvalidRequestError(message, { param });
}

/** Each field costs a few looks at it, whatever is in it. */
function checkNumFields(body: object): void {
  const numFields = Object.keys(body).length;
  if (numFields <= MAX_FIELDS) return;
  throw new InvalidRequestError(`The body must have at most ${MAX_FIELDS} fields, got ${numFields}`);
}
