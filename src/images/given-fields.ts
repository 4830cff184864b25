// What --mm-processor-kwargs says of images, in the spelling of vLLM: each processor takes the few fields that mean something to it.

import * as z from 'zod';
import { ConfigError } from '../errors.ts';
import { zodMessage } from '../util/zod-message.ts';

/** Plain data. */
export type GivenFields = Readonly<Record<string, unknown>>;

const OPTION = 'mm-processor-kwargs';

/** Refuses what its processor does not know: it would be ignored silently. */
const edgeFields = z.strictObject({
  size: z.strictObject({ longest_edge: z.int().positive().nullish() }).nullish(),
});

/**
 * @param takes the fields that this model takes, for messages
 * @throws ConfigError naming the field, what is wrong with it, and `takes`.
 */
export function checkGiven<T extends z.ZodType>(given: GivenFields, schema: T, takes: string): z.output<T> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw refused(`${zodMessage(parsed.error, given, 'the JSON')}; this model takes ${takes}`);
}

/**
 * The longer side of an image at most, in pixels: what is given, else the model's own.
 * @throws ConfigError where more is given than the model's own: no more is ever read, and memory is there for that.
 */
export function longestEdge(given: GivenFields, own: number): number {
  const edge =
    checkGiven(given, edgeFields, '{"size": {"longest_edge": <pixels>}}').size?.longest_edge ?? own;
  if (edge <= own) return edge;
  throw refused(`size.longest_edge must be at most ${own}, which is the model's own, got ${edge}`);
}

function refused(why: string): ConfigError {
  return new ConfigError(`--${OPTION}: ${why}`, { param: OPTION });
}
