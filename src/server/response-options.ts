// Everything that determines an answer except its samples: ids, times and names, and which fields were asked for.

import type { FastifyRequest } from 'fastify';
import type { InferenceEngine, PreparedRequest } from '../engine/inference-engine.ts';
import type { CommonFields } from './protocol/common-fields.ts';
import type { ServerContext } from './server-context.ts';
import { systemFingerprint } from './system-fingerprint.ts';

/** Fields of every chunk and of the body. */
interface ResponseHead {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  /** Names all that determines the bytes of an answer besides its request. */
  readonly system_fingerprint: string;
}

/** The prompt as the answer repeats it. */
export interface Echo {
  readonly text: string;
  /** Special tokens of the prompt are no part of the text. */
  readonly skipsSpecialTokens: boolean;
}

export interface ResponseOptions {
  readonly head: ResponseHead;
  readonly prompts: readonly PreparedRequest[];
  /** One a prompt; null repeats nothing. */
  readonly echoes: readonly (Echo | null)[];
  readonly returnTokenIds: boolean;
  readonly returnPromptLogprobs: boolean;
  /** The one in which the request is served; null where it names none. */
  readonly serviceTier: string | null;
  /** Logprobs spell tokens as their ids. */
  readonly areTokensIds: boolean;
  readonly includeUsage: boolean;
  /** Every chunk has the usage of its choice so far. */
  readonly continuousUsage: boolean;
  /** Usage counts the prompt tokens that came from the prefix cache. */
  readonly showsCachedTokens: boolean;
}

/** What an endpoint says of its answer in its own way. */
interface EndpointOptions
  extends Pick<ResponseOptions, 'prompts' | 'echoes' | 'returnTokenIds' | 'serviceTier'> {
  /** Of the id: `chatcmpl-`. */
  readonly prefix: string;
  /** The id that a proxy chose; else it is that of a header, of the body, or of the log, in this order. */
  readonly answerId: string | null;
  readonly isBeamSearch: boolean;
}

export function responseOptions(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  body: CommonFields,
  { prefix, answerId, isBeamSearch, ...ofEndpoint }: EndpointOptions,
): ResponseOptions {
  const hasOwnHeader = request.headers['x-request-id'] === request.id;
  const adapter = ofEndpoint.prompts[0]?.adapter ?? null;
  const { version, areTokensIds = false, alwaysTellsUsage = false } = context.options;
  const id = answerId ?? (hasOwnHeader ? request.id : (body.request_id ?? request.id));
  return {
    ...ofEndpoint,
    head: {
      id: `${prefix}${id}`,
      created: body.svc_resume?.created ?? Math.floor(Date.now() / 1000),
      model: adapter?.name ?? context.modelNames(engine)[0],
      system_fingerprint: systemFingerprint(version, engine.info, adapter),
    },
    returnPromptLogprobs: body.prompt_logprobs != null,
    areTokensIds: body.return_tokens_as_token_ids ?? areTokensIds,
    includeUsage: alwaysTellsUsage || (body.stream_options?.include_usage ?? false),
    continuousUsage: alwaysTellsUsage || (body.stream_options?.continuous_usage_stats ?? false),
    // The prompt of a beam search is looked up again for every token.
    showsCachedTokens: (context.options.showsCachedTokens ?? true) && !isBeamSearch,
  };
}
