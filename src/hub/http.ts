// Requests to a hub, with deadlines and retries; each fault becomes one line that tells a person what to do.

import { setTimeout as sleep } from 'node:timers/promises';
import { fetch, type Response } from 'undici';
import type * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { zodMessage } from '../util/zod-message.ts';
import type { ModelHub } from './model-hub.ts';

/** Answers of the hub's API are small: later than this they are lost. */
const API_DEADLINE_MS = 20_000;
const API_TRIES = 3;
const FIRST_DELAY_MS = 300;
const LONGEST_DELAY_MS = 10_000;
/** A hub may ask for a longer wait: then a person is told of it, and decides. */
const LONGEST_ASKED_DELAY_MS = 60_000;

export interface HubContext {
  readonly hub: Pick<ModelHub, 'name' | 'token' | 'headers' | 'connections'>;
  readonly model: string;
  /** For messages, where the request depends on it. */
  readonly revision?: string;
}

/** The hub cannot be reached, or does not do its work: a local copy may serve instead. */
export class HubUnreachableError extends ModelLoadError {}

/** An answer for which one may ask again. */
export class HubBusyError extends Error {
  readonly response: Response;

  constructor(response: Response) {
    super(`HTTP ${response.status}`);
    this.response = response;
  }
}

/**
 * GETs JSON of the given shape.
 * @returns the value and the address of the next page, if there is one.
 * @throws HubUnreachableError after several tries, ModelLoadError for an answer that a retry would not change.
 */
export async function getJson<T>(
  url: string,
  schema: z.ZodType<T>,
  context: HubContext,
): Promise<{ value: T; next: string | null }> {
  for (let attempt = 1; ; attempt++) {
    try {
      const signal = AbortSignal.timeout(API_DEADLINE_MS);
      const { headers, connections: dispatcher } = context.hub;
      const response = await fetch(url, { headers, dispatcher, signal });
      refuseForGood(response, context);
      if (!response.ok) throw new HubBusyError(response);
      const value: unknown = await response.json();
      const parsed = schema.safeParse(value);
      if (!parsed.success) {
        const why = zodMessage(parsed.error, value, 'it');
        throw new ModelLoadError(
          `${url}: the answer is not that of a hub: ${why}; check the address of the hub`,
        );
      }
      return { value: parsed.data, next: nextPage(url, response.headers.get('link')) };
    } catch (error) {
      if (error instanceof ModelLoadError) throw error;
      const delay = retryDelay(attempt, error);
      if (attempt === API_TRIES || delay === null) throw unreachable(error, context);
      await sleep(delay);
    }
  }
}

/** Milliseconds before try number `attempt` + 1: doubled each time, or as the hub asks; null where it asks for too many. */
export function retryDelay(attempt: number, error: unknown): number | null {
  const asked = error instanceof HubBusyError ? askedDelay(error.response) : null;
  if (asked !== null) return asked <= LONGEST_ASKED_DELAY_MS ? asked : null;
  return Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempt - 1));
}

/** Retry-After is a number of seconds or a date. */
function askedDelay(response: Response): number | null {
  const text = response.headers.get('retry-after');
  if (text === null) return null;
  const delay = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isNaN(delay) ? null : Math.max(0, delay);
}

/** @throws ModelLoadError for the answers that stay the same however often one asks. */
export function refuseForGood(response: Response, { hub, model, revision }: HubContext): void {
  const { status } = response;
  const { variable, isGiven } = hub.token;
  const page = `${hub.name}/${model}`;
  if (status === 401 && !isGiven) {
    throw new ModelLoadError(
      `${hub.name} does not show ${model} (HTTP 401): the name is wrong, or the model is private or gated; check the spelling, ` +
        `or ask for access on ${page} and set ${variable}`,
    );
  }
  if (status === 401) {
    throw new ModelLoadError(
      `${hub.name} does not show ${model} to the owner of this token (HTTP 401): the name is wrong, the token is no longer valid, ` +
        `or it may not read the model; check the spelling and ${variable}`,
    );
  }
  if (status === 403) {
    const how = isGiven ? `wait until access is granted` : `set ${variable} to a token of yours`;
    throw new ModelLoadError(
      `${model} is gated (HTTP 403): accept its terms on ${page}, then ${how} and start again`,
    );
  }
  if (status === 404 || status === 410) {
    const what = revision === undefined ? `model ${model}` : `model ${model} with a revision ${revision}`;
    throw new ModelLoadError(
      `${hub.name} has no ${what}, and there is no local folder of that name: check the spelling`,
    );
  }
}

export function unreachable(error: unknown, { hub, model }: HubContext): HubUnreachableError {
  return new HubUnreachableError(`${model} cannot be downloaded: ${whatToDo(error, hub)}`, { cause: error });
}

function whatToDo(error: unknown, { name, token }: HubContext['hub']): string {
  if (!(error instanceof HubBusyError)) {
    return `${name} cannot be reached (${reasonOf(error)}), and there is no local folder of that name: check the spelling or the network`;
  }
  const { status } = error.response;
  if (status !== 429)
    return `${name} fails (HTTP ${status}), and has been asked several times: try again later`;
  const delay = askedDelay(error.response);
  const when = delay === null ? 'later' : `in ${Math.ceil(delay / 1000)} s`;
  const more = token.isGiven ? '' : `, or set ${token.variable}, since callers without a token get less`;
  return `${name} wants fewer requests (HTTP 429): try again ${when}${more}`;
}

/** The innermost reason: fetch itself only says "fetch failed". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error) return 'code' in cause ? `${String(cause.code)}` : cause.message;
  return error.message;
}

/** Only at the same address: it gets the token. */
function nextPage(url: string, link: string | null): string | null {
  const next = /<([^>]+)>;\s*rel="next"/.exec(link ?? '')?.[1];
  if (next === undefined) return null;
  const absolute = new URL(next, url);
  return absolute.origin === new URL(url).origin ? absolute.href : null;
}
