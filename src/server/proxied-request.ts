// What a proxy adds to a request: the id that two instances share, the one that the client sees, a journal of the stream,
// and the beginning of a stream that another instance could not end. The generation routes read it.

import type { FastifyRequest } from 'fastify';
import type { GenerationRequest } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';
import { REQUEST_ID } from '../http/app.ts';
import { CALLER_NAME, isSameSecret } from '../http/auth.ts';
import type { StreamResume } from './protocol/stream-resume.ts';

/** Asks for a comment in front of each event: `: <choice> <token ids>`. */
const JOURNAL_HEADER = 'x-svc-journal';
/** What the client is to see in place of X-Request-Id, which may carry the addresses of two instances. */
const ANSWER_ID_HEADER = 'x-svc-answer-id';
/** Whose request it is, by the name that `ApiKeys.callerOf` gives. */
const CALLER_HEADER = 'x-svc-caller';
/** Proves that the proxy speaks, to which alone this instance has told the token. */
const PROXY_TOKEN_HEADER = 'x-svc-proxy-token';

export interface ProxiedRequest {
  readonly keepsJournal: boolean;
  /** Null where the answer begins from nothing. */
  readonly resume: StreamResume | null;
  /** X-Request-Id as it came; null where the request has none, or has nothing to do with another instance any more. */
  readonly transferId: string | null;
}

/** @throws InvalidRequestError for a stream to resume without a journal. */
export function readProxied(
  request: FastifyRequest,
  body: {
    readonly stream?: boolean | null | undefined;
    readonly svc_resume?: StreamResume | null | undefined;
  },
): ProxiedRequest {
  const keepsJournal = request.headers[JOURNAL_HEADER] === '1' && body.stream === true;
  const resume = body.svc_resume ?? null;
  if (resume !== null && !keepsJournal) {
    throw new InvalidRequestError(
      `svc_resume is for streams with a journal: set stream to true and the header ${JOURNAL_HEADER} to 1`,
      { param: 'svc_resume' },
    );
  }
  const given = request.headers['x-request-id'];
  // What the stream has had so far is computed here, beside its prompt.
  const transferId = resume === null && given === request.id ? given : null;
  return { keepsJournal, resume, transferId };
}

/** The id of the answer as its proxy wants it; null where no proxy has said. */
export function proxiedAnswerId({ headers }: FastifyRequest): string | null {
  const given = headers[ANSWER_ID_HEADER];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : null;
}

/** The caller as the proxy names it; null where it is not the proxy that speaks: a client could pose as many callers. */
export function proxiedCaller({ headers }: FastifyRequest, proxyToken: string | undefined): string | null {
  const caller = headers[CALLER_HEADER];
  const token = headers[PROXY_TOKEN_HEADER];
  if (proxyToken === undefined || typeof token !== 'string' || !isSameSecret(token, proxyToken)) return null;
  return typeof caller === 'string' && CALLER_NAME.test(caller) ? caller : null;
}

/** Fields of the engine's request for prompt number `promptIndex`, of which `n` samples are made. */
export function instanceFields(
  { transferId: requestId, resume }: ProxiedRequest,
  promptIndex: number,
  n: number,
): Pick<GenerationRequest, 'transferKey' | 'resume'> {
  return {
    transferKey: requestId === null ? null : { requestId, promptIndex },
    resume: resume === null ? null : resume.choices.slice(promptIndex * n, (promptIndex + 1) * n),
  };
}

/** @throws InvalidRequestError unless there is one list of tokens a choice. */
export function checkResume({ resume }: ProxiedRequest, numChoices: number): void {
  if (resume === null || resume.choices.length === numChoices) return;
  throw new InvalidRequestError(
    `svc_resume.choices must have one list of tokens for each of the ${numChoices} choices, got ${resume.choices.length}`,
    { param: 'svc_resume' },
  );
}
