// Refuses unknown names: a program has no log in which to find a mistyped one.

import { didYouMean } from '../config/suggest.ts';
import { InvalidRequestError } from '../errors.ts';

/** One of the objects that the methods of `LLM` take. */
interface NamedFields {
  /** `sampling parameters` */
  readonly subject: string;
  /** `{ temperature: 0 }` */
  readonly example: string;
  readonly known: readonly string[];
  /** The beginning of the message that refuses `name`. */
  readonly refusal: (name: string) => string;
  /** Names that belong into another argument, and which one that is. */
  readonly elsewhere?: { readonly names: readonly string[]; readonly hint: string };
}

/** @throws InvalidRequestError where `given` is not an object, and for the first unknown name. */
export function checkNames(given: unknown, fields: NamedFields): void {
  const { subject, example, known, refusal, elsewhere } = fields;
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new InvalidRequestError(
      `${subject} must be an object such as ${example}, got ${JSON.stringify(given)}`,
    );
  }
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const hint = elsewhere?.names.includes(unknown) ? `: ${elsewhere.hint}` : didYouMean(unknown, known);
  throw new InvalidRequestError(`${refusal(unknown)}${hint}`, { param: unknown });
}
