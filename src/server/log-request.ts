// The line of the log about a request that was understood.

import type { FastifyBaseLogger } from 'fastify';
import type { InferenceEngine } from '../engine/inference-engine.ts';
import { summary } from '../util/preview.ts';
import type { ServerOptions } from './server-context.ts';

/** Prompts whose texts are in one line. */
const MAX_PROMPTS = 8;

interface LoggedRequest {
  readonly id: string;
  readonly prompts: readonly { readonly promptTokenIds: readonly number[] }[];
  readonly params?: unknown;
}

/** Without its text, unless the operator has said how much of it may be logged. */
export async function logRequest(
  log: FastifyBaseLogger,
  engine: InferenceEngine,
  { id, prompts, params }: LoggedRequest,
  { logRequests, maxLoggedLength = null }: Pick<ServerOptions, 'logRequests' | 'maxLoggedLength'>,
): Promise<void> {
  if (!logRequests) return;
  const promptTokens = summary(prompts.map(({ promptTokenIds }) => promptTokenIds.length));
  const texts =
    maxLoggedLength === null ? {} : { prompts: await beginnings(engine, prompts, maxLoggedLength) };
  log.info({ id, params: summary(params), promptTokens, ...texts }, 'received request');
}

/** So many characters, and so many ids. */
function beginnings({ tokenizer }: InferenceEngine, prompts: LoggedRequest['prompts'], length: number) {
  return Promise.all(
    prompts.slice(0, MAX_PROMPTS).map(async ({ promptTokenIds }) => {
      const tokenIds = promptTokenIds.slice(0, length);
      const text = (await tokenizer?.decode(tokenIds, { skipSpecialTokens: false })) ?? null;
      return { text: text && Array.from(text).slice(0, length).join(''), tokenIds };
    }),
  );
}
