// POST /v1/completions: one or several prompts, as texts or token ids, each continued n times.

import type { FastifyRequest } from 'fastify';
import type { InferenceEngine, PreparedRequest } from '../../engine/inference-engine.ts';
import { InvalidRequestError } from '../../errors.ts';
import { saltKeys } from '../../kv-cache/prefix-hash.ts';
import { checkSamplesDiffer } from '../../sampling/sampling-params.ts';
import type { Client } from '../../util/client.ts';
import { yieldTurn } from '../../util/yield-turn.ts';
import { CompletionWriter } from '../completion/completion-writer.ts';
import { checkCommonFields, type FieldTables } from '../field-checks.ts';
import { parseBody } from '../parse-body.ts';
import type { ParsedRequest } from '../parsed-request.ts';
import { ignoredFields } from '../protocol/common-fields.ts';
import {
  type CompletionRequest,
  completionSchema,
  unavailableCompletionFields,
} from '../protocol/completion.ts';
import type { CompletionPrompt } from '../protocol/prompt.ts';
import { readProxied } from '../proxied-request.ts';
import { type ReadSampling, readSampling } from '../read-sampling.ts';
import { checkBudget, checkChoices, checkMaxTokens, type RequestedTokens } from '../request-limits.ts';
import { type Echo, responseOptions } from '../response-options.ts';
import type { ServerContext } from '../server-context.ts';
import type { GenerationEndpoint } from './generation-route.ts';

const DEFAULT_MAX_TOKENS = 16;
const TABLES: FieldTables = {
  served: completionSchema.shape,
  unavailable: unavailableCompletionFields,
  ignored: new Set(),
};

export const completions: GenerationEndpoint = {
  path: '/v1/completions',
  about: { summary: 'Continues prompts', body: completionSchema, ignored: ignoredFields, streams: true },
  parse,
};

async function parse(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  client: Client,
): Promise<ParsedRequest> {
  const body = parseBody(completionSchema, request.body);
  checkCommonFields(context, engine, body, TABLES);
  const isEchoOnly = body.max_tokens === 0;
  const { params, beamSearch } = samplingOf(body, engine);
  const bestOf = bestOfSamples(body, params.n);
  checkChoices(body.prompt.length, bestOf ?? params.n);
  const proxied = readProxied(request, body, body.prompt.length, params.n);
  const common = {
    adapter: context.adapterOf(body.model, engine),
    extraKeys: saltKeys(body.cache_salt ?? null),
    priority: body.priority ?? 0,
    addSpecialTokens: body.add_special_tokens ?? true,
    ...client,
  };
  const prompts: PreparedRequest[] = [];
  const echoes: (Echo | null)[] = [];
  for (const [index, given] of body.prompt.entries()) {
    const prepared = await engine.prepare(given, params, { ...common, ...proxied.prompts[index] });
    prompts.push(prepared);
    echoes.push(await echoOf(body, given, prepared, engine));
    await yieldTurn();
    client.signal?.throwIfAborted();
  }
  checkBudget(prompts, requestedTokens(body, engine), engine.info.maxModelLen);
  const { answerId, keepsJournal } = proxied;
  const returnTokenIds = body.return_token_ids ?? engine.tokenizer === null;
  const isBeamSearch = beamSearch !== null;
  const about = { answerId, prompts, echoes, returnTokenIds, isBeamSearch, serviceTier: null };
  const options = responseOptions(context, engine, request, body, { prefix: 'cmpl-', ...about });
  const writer = new CompletionWriter(options, engine.tokenizer);
  const isStream = body.stream ?? false;
  const streamInterval = body.stream_interval ?? context.options.streamInterval ?? 1;
  const { id } = options.head;
  return { id, prompts, beamSearch, bestOf, isEchoOnly, isStream, streamInterval, keepsJournal, writer };
}

/** Null where every sample is a choice. */
function bestOfSamples({ best_of, stream, use_beam_search }: CompletionRequest, n: number): number | null {
  if (best_of == null || best_of === n) return null;
  const fault =
    best_of < n
      ? `best_of must be at least n (${n}), got ${best_of}`
      : stream
        ? 'best_of cannot be streamed, because the best sample is known at the end only: set stream to false'
        : use_beam_search
          ? 'best_of has no effect on beam search: leave it out or use_beam_search'
          : null;
  if (fault !== null) throw new InvalidRequestError(fault, { param: 'best_of' });
  return best_of;
}

function samplingOf(body: CompletionRequest, engine: InferenceEngine): ReadSampling {
  if (body.max_tokens === 0 && !body.echo) {
    throw new InvalidRequestError('max_tokens must be at least 1, got 0 (0 is possible with echo)', {
      param: 'max_tokens',
    });
  }
  checkMaxTokens({ field: 'max_tokens', count: body.max_tokens ?? 0 }, engine.info.maxModelLen);
  const max_tokens = body.max_tokens ?? engine.samplingDefaults.max_tokens ?? DEFAULT_MAX_TOKENS;
  const { logprobs } = body;
  // The echoed tokens have log-probabilities like the others.
  const prompt_logprobs = body.prompt_logprobs ?? (body.echo ? logprobs : null);
  const own = { max_tokens: Math.max(1, max_tokens), logprobs, prompt_logprobs };
  const sampling = readSampling(body, own, engine);
  checkSamplesDiffer(sampling.params);
  return body.max_tokens === 0 ? { ...sampling, beamSearch: null } : sampling;
}

/** The protocol's own default counts as asked for; a default of the model is cut to the room that is left. */
function requestedTokens(body: CompletionRequest, engine: InferenceEngine): RequestedTokens {
  const fallback = engine.samplingDefaults.max_tokens === undefined ? DEFAULT_MAX_TOKENS : 0;
  return { field: 'max_tokens', count: body.max_tokens ?? fallback };
}

/** A text as it came; for ids, and for a text that was cut, the text that the model has seen. */
async function echoOf(
  body: CompletionRequest,
  prompt: CompletionPrompt,
  { promptTokenIds }: PreparedRequest,
  { tokenizer }: InferenceEngine,
): Promise<Echo | null> {
  if (!body.echo) return null;
  if ('text' in prompt && body.truncate_prompt_tokens == null) {
    return { text: prompt.text, skipsSpecialTokens: true };
  }
  const skipSpecialTokens = body.skip_special_tokens ?? true;
  const text = (await tokenizer?.decode(promptTokenIds, { skipSpecialTokens })) ?? '';
  return { text, skipsSpecialTokens: skipSpecialTokens };
}
