// POST /v1/completions: one or several prompts, as texts or token ids, each continued n times.

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { InferenceEngine, PreparedRequest } from '../../engine/inference-engine.ts';
import { InvalidRequestError } from '../../errors.ts';
import { checkSamplesDiffer } from '../../sampling/sampling-params.ts';
import { LongLoop } from '../../util/long-loop.ts';
import { CompletionFormat } from '../completion-format.ts';
import { checkCommonFields, type FieldTables } from '../field-checks.ts';
import { checkChoices, type Echo, type Generation } from '../generation.ts';
import { parseBody } from '../parse-body.ts';
import {
  type CompletionRequest,
  completionSchema,
  unavailableCompletionFields,
} from '../protocol/completion.ts';
import type { PromptInput } from '../protocol/prompt.ts';
import { checkResume, instanceFields, readProxied } from '../proxied-request.ts';
import { type ReadSampling, readSampling } from '../read-sampling.ts';
import type { ServerContext } from '../server-context.ts';
import { checkBudget, checkMaxTokens } from '../token-budget.ts';
import {
  answerGeneration,
  answerHead,
  type GenerationJob,
  logRequest,
  reportFields,
} from './generation-route.ts';

const DEFAULT_MAX_TOKENS = 16;
const TABLES: FieldTables = {
  served: completionSchema.shape,
  unavailable: unavailableCompletionFields,
  ignored: new Set(),
};

export function completionsRoute(app: FastifyInstance, context: ServerContext): void {
  app.post('/v1/completions', (request, reply) =>
    answerGeneration(context, request, reply, (engine) => readCompletion(context, engine, request)),
  );
}

async function readCompletion(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
): Promise<GenerationJob> {
  const body = parseBody(completionSchema, request.body);
  checkCommonFields(context, engine, body, TABLES);
  const { params, beamSearch } = samplingOf(body, engine);
  checkChoices(body.prompt.length, params.n);
  const proxied = readProxied(request, body);
  checkResume(proxied, body.prompt.length * params.n);
  const addSpecialTokens = body.add_special_tokens ?? true;
  const shared = { params, cacheSalt: body.cache_salt ?? null, priority: body.priority ?? 0 };
  const prompts: PreparedRequest[] = [];
  const echoes: (Echo | null)[] = [];
  const loop = new LongLoop();
  for (const [index, prompt] of body.prompt.entries()) {
    const prepared = await engine.prepare({
      prompt: 'text' in prompt ? { text: prompt.text, addSpecialTokens } : prompt,
      ...shared,
      ...instanceFields(proxied, index, params.n),
    });
    prompts.push(prepared);
    echoes.push(await echoOf(body, prompt, prepared, engine));
    await loop.pause();
  }
  checkBudget(prompts, requestedTokens(body, engine), engine.info.maxModelLen);
  const isEchoOnly = body.max_tokens === 0;
  const generation: Generation = {
    prompts,
    echoes,
    isEchoOnly,
    beamSearch: isEchoOnly ? null : beamSearch,
    returnTokenIds: body.return_token_ids ?? engine.tokenizer === null,
    keepsJournal: proxied.keepsJournal,
    ...reportFields(context, body),
  };
  const head = answerHead(context, engine, request, body, 'cmpl');
  logRequest(context, request, head, generation);
  const format = new CompletionFormat(head, generation, engine.tokenizer);
  return { isStream: body.stream ?? false, generation, format };
}

function samplingOf(body: CompletionRequest, engine: InferenceEngine): ReadSampling {
  if (body.max_tokens === 0 && !body.echo) {
    throw new InvalidRequestError('max_tokens must be at least 1, got 0 (0 is possible with echo)', {
      param: 'max_tokens',
    });
  }
  checkMaxTokens(body.max_tokens ?? 0, 'max_tokens', engine.info.maxModelLen);
  const max_tokens = body.max_tokens ?? engine.samplingDefaults.max_tokens ?? DEFAULT_MAX_TOKENS;
  const { logprobs } = body;
  // The echoed tokens have log-probabilities like the others.
  const prompt_logprobs = body.prompt_logprobs ?? (body.echo ? logprobs : null);
  const own = { max_tokens: Math.max(1, max_tokens), logprobs, prompt_logprobs };
  const sampling = readSampling(body, own, engine);
  checkSamplesDiffer(sampling.params);
  return sampling;
}

/** The protocol's own default counts as asked for; one that the model brings is cut to what is left. */
function requestedTokens(body: CompletionRequest, engine: InferenceEngine): number {
  const fallback = engine.samplingDefaults.max_tokens === undefined ? DEFAULT_MAX_TOKENS : 0;
  return body.max_tokens ?? fallback;
}

/** A text as it came; of ids, and of a text that was cut, what the model has seen. */
async function echoOf(
  body: CompletionRequest,
  prompt: PromptInput,
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
