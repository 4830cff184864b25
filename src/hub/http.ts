// Requests to a hub with deadlines and retries; what goes wrong comes out as one line that says what to do.

import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import { ModelLoadError } from '../errors.ts';

/** Answers of the hub's API are small: later than this they are lost. */
const API_DEADLINE_MS = 20_000;
const API_TRIES = 3;
const FIRST_DELAY_MS = 300;
const LONGEST_DELAY_MS = 10_000;

export interface HubContext {
  readonly hub: string;
  readonly model: string;
  /** For messages, where the request depends on it. */
  readonly revision?: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The hub cannot be reached at all: a local copy may serve instead. */
export class HubUnreachableError extends ModelLoadError {}

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
      const response = await fetch(url, { headers: context.headers, signal });
      refuseForGood(response, context);
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      const parsed = schema.safeParse(await response.json());
      if (!parsed.success) throw new ModelLoadError(`${url}: an answer of another form than expected`);
      return { value: parsed.data, next: nextPage(response.headers.get('link')) };
    } catch (error) {
      if (error instanceof ModelLoadError) throw error;
      if (attempt === API_TRIES) throw unreachable(error, context);
      await sleep(retryDelay(attempt));
    }
  }
}

/** Milliseconds before try number `attempt` + 1: doubled each time. */
export function retryDelay(attempt: number, response?: Response): number {
  const asked = Number(response?.headers.get('retry-after'));
  if (asked > 0) return Math.min(asked * 1000, 6 * LONGEST_DELAY_MS);
  return Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempt - 1));
}

/** @throws ModelLoadError for the answers that stay the same however often one asks. */
export function refuseForGood(response: Response, { hub, model, revision }: HubContext): void {
  if (response.status === 401 || response.status === 403) {
    throw new ModelLoadError(
      `${hub} does not show ${model} (HTTP ${response.status}): the name is wrong, or the model is private or gated; ask for access on its page and set HF_TOKEN`,
    );
  }
  if (response.status === 404) {
    const what = revision === undefined ? `model ${model}` : `model ${model} with a revision ${revision}`;
    throw new ModelLoadError(
      `${hub} has no ${what}, and there is no local folder of that name: check the spelling`,
    );
  }
}

export function unreachable(error: unknown, { hub, model }: HubContext): HubUnreachableError {
  return new HubUnreachableError(
    `there is no local folder ${model}, and it cannot be downloaded from ${hub} (${reasonOf(error)}): check the spelling or the network`,
    { cause: error },
  );
}

/** The innermost reason: fetch itself only says "fetch failed". */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error) return 'code' in cause ? `${String(cause.code)}` : cause.message;
  return error.message;
}

function nextPage(link: string | null): string | null {
  return /<([^>]+)>;\s*rel="next"/.exec(link ?? '')?.[1] ?? null;
}
