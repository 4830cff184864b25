// The beginning of a stream that another instance could not finish, as a proxy sends it: the whole stream is written again,
// with these tokens as if they had just been sampled.

import * as z from 'zod';
import { listOf, tokenIdsOf } from '../../util/bounded-schemas.ts';
import { describedAs } from '../../util/json-schema.ts';

const MAX_CHOICES = 16_384;
/** Of one choice: no context is longer. */
const MAX_TOKENS = 1_048_576;

const choices = listOf(tokenIdsOf(MAX_TOKENS), MAX_CHOICES);

export const streamResume = z.object({
  /** Unix seconds that the first chunks carry. */
  created: z.int().min(0),
  /** By choice: the tokens that its events so far were made of. */
  choices: describedAs(choices, z.preprocess(unpacked, choices)),
});

export type StreamResume = Readonly<z.output<typeof streamResume>>;

/** Long lists come packed, see `parseJsonBody`. */
function unpacked(lists: unknown): unknown {
  if (!Array.isArray(lists)) return lists;
  return lists.map((ids) => (ids instanceof Int32Array ? Array.from(ids) : ids));
}
