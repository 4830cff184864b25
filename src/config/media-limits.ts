// What --limit-mm-per-prompt and --allowed-media-domains say of the images of requests, in the spelling of vLLM.

import * as z from 'zod';
import { ConfigError } from '../errors.ts';
import { type JsonObject, type Kind, matching } from './option-kinds.ts';
import { didYouMean } from './suggest.ts';

const OPTION = 'limit-mm-per-prompt';
const DEFAULT_IMAGES = 16;
const MAX_IMAGES = 1024;
/** What else models of other servers read: nothing here does, whatever the limit. */
const OTHER_KINDS: readonly string[] = ['video', 'audio'];
const KINDS: readonly string[] = ['image', ...OTHER_KINDS];

const number = z.int().min(0).max(MAX_IMAGES);
/** The longer form has sizes beside the number, for a trial at start that there is none of here. */
const limit = z.union([number, z.looseObject({ count: number }).transform(({ count }) => count)]);

/**
 * Images that one prompt may have.
 * @throws ConfigError naming what is wrong with the JSON.
 */
export function parseMaxImages(json: JsonObject | null): number {
  const unknown = Object.keys(json ?? {}).find((name) => !KINDS.includes(name));
  if (unknown !== undefined)
    throw new ConfigError(`--${OPTION}: ${unknown}: unknown kind${didYouMean(unknown, KINDS)}`, {
      param: OPTION,
    });
  const given = json?.image ?? DEFAULT_IMAGES;
  const parsed = limit.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new ConfigError(
    `--${OPTION}: image: expected a whole number from 0 to ${MAX_IMAGES}, got ${JSON.stringify(given)}`,
    { param: OPTION },
  );
}

/** A name or an address, not a URL; IPv6 addresses may be in brackets. */
const HOST = /^([^\s:/?#@[\]]+|\[?[0-9a-f:.]*:[0-9a-f:.]*\]?)$/i;

export function hosts(): Kind<string[]> {
  return matching('<host...>', HOST, 'hosts such as images.example.com, without scheme, port and path');
}

/** As URLs have them. */
export function mediaDomains(given: readonly string[]): string[] {
  return given.map((host) => (host.includes(':') ? `[${host.replace(/[[\]]/g, '')}]` : host).toLowerCase());
}
