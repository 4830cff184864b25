// The fields that a proxy adds to a request: an id shared by two instances, the id that the client sees, a journal of the
// stream, and the beginning of a stream that another instance could not finish.

import type { FastifyRequest } from 'fastify';
import type { RequestOptions } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';
import { REQUEST_ID } from '../http/app.ts';
import { CALLER_NAME, isSameSecret } from '../http/auth.ts';
import type { CommonFields } from './protocol/common-fields.ts';
import type { StreamResume } from './protocol/stream-resume.ts';

/** Asks for a comment before each event: `: <choice> <token ids>`. */
const JOURNAL_HEADER = 'x-svc-journal';
/** The id that the client sees in place of X-Request-Id, which may carry the addresses of two instances. */
const ANSWER_ID_HEADER = 'x-svc-answer-id';
/** Whose request it is, by the name that `ApiKeys.callerOf` gives. */
const CALLER_HEADER = 'x-svc-caller';
/** Proves that the proxy speaks, to which alone this instance has told the token. */
const PROXY_TOKEN_HEADER = 'x-svc-proxy-token';

interface ProxiedRequest {
  readonly keepsJournal: boolean;
  /** Null where the proxy names none. */
  readonly answerId: string | null;
  /** By prompt: fields of its engine request. */
  readonly prompts: readonly Pick<RequestOptions, 'transferKey' | 'resume'>[];
}

/**
 * @param n samples of each prompt.
 * @throws InvalidRequestError for a stream to resume without a journal, or with another number of choices.
 */
export function readProxied(
  { id, headers }: FastifyRequest,
  { stream, svc_resume }: CommonFields,
  numPrompts: number,
  n: number,
): ProxiedRequest {
  const keepsJournal = headers[JOURNAL_HEADER] === '1' && stream === true;
  const resume = svc_resume ?? null;
  if (resume !== null) checkResume(resume, keepsJournal, numPrompts * n);
  // A resumed answer needs no other instance: its tokens so far are computed here, after the prompt.
  const isShared = resume === null && headers['x-request-id'] === id;
  return {
    keepsJournal,
    answerId: proxiedAnswerId(headers),
    prompts: Array.from({ length: numPrompts }, (_, promptIndex) => ({
      transferKey: isShared ? { requestId: id, promptIndex } : null,
      resume: resume === null ? null : resume.choices.slice(promptIndex * n, (promptIndex + 1) * n),
    })),
  };
}

/** The id that a proxy has chosen for the answer; null where no proxy speaks for the client. */
export function proxiedAnswerId(headers: FastifyRequest['headers']): string | null {
  const answerId = headers[ANSWER_ID_HEADER];
  return typeof answerId === 'string' && REQUEST_ID.test(answerId) ? answerId : null;
}

function checkResume({ choices }: StreamResume, keepsJournal: boolean, numChoices: number): void {
  if (!keepsJournal) {
    throw new InvalidRequestError(
      `svc_resume is for streams with a journal: set stream to true and the header ${JOURNAL_HEADER} to 1`,
      { param: 'svc_resume' },
    );
  }
  if (choices.length === numChoices) return;
  throw new InvalidRequestError(
    `svc_resume.choices must have one list of tokens for each of the ${numChoices} choices, got ${choices.length}`,
    { param: 'svc_resume' },
  );
}

/** The caller as the proxy names it; null unless the proxy speaks, since a client could pose as many callers. */
export function proxiedCaller({ headers }: FastifyRequest, proxyToken: string | undefined): string | null {
  const caller = headers[CALLER_HEADER];
  const token = headers[PROXY_TOKEN_HEADER];
  if (proxyToken === undefined || typeof token !== 'string' || !isSameSecret(token, proxyToken)) return null;
  return typeof caller === 'string' && CALLER_NAME.test(caller) ? caller : null;
}
