// The beginning of a stream that another instance could not end, as a proxy sends it: the whole stream is written again,
// with these tokens as if they had just been sampled. A field of both generation endpoints.

import { z } from 'zod';

export const streamResume = z.object({
  /** Unix seconds that the first chunks carry. */
  created: z.int().min(0),
  /** By choice: the tokens that its events so far were made of. */
  choices: z.array(z.array(z.int())),
});

export type StreamResume = Readonly<z.output<typeof streamResume>>;
