// POST /v1/completions: one or several prompts, as texts or token ids, each continued n times.

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { InferenceEngine, PreparedRequest } from '../../engine/inference-engine.ts';
import { InvalidRequestError } from '../../errors.ts';
import { resolveSamplingParams, type SamplingParams } from '../../sampling/sampling-params.ts';
import { CompletionFormat } from '../completion-format.ts';
import { checkChoices, type Generation } from '../generation.ts';
import {
  type CompletionRequest,
  completionSchema,
  unavailableCompletionFields,
} from '../protocol/completion.ts';
import { parseBody } from '../protocol/parse-body.ts';
import type { ServerContext } from '../server-context.ts';
import { checkBudget, checkMaxTokens } from '../token-budget.ts';
import {
  answerGeneration,
  answerHead,
  checkCommonFields,
  type FieldTables,
  type GenerationJob,
  logRequest,
  usageFields,
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
  const params = samplingOf(body, engine);
  checkChoices(body.prompt.length, params.n);
  const prompts = await Promise.all(
    body.prompt.map((prompt) => {
      const addSpecialTokens = body.add_special_tokens ?? true;
      return engine.prepare({
        prompt: 'text' in prompt ? { text: prompt.text, addSpecialTokens } : prompt,
        params,
      });
    }),
  );
  checkBudget(prompts, requestedTokens(body, engine), engine.info.maxModelLen);
  const generation: Generation = {
    prompts,
    echoes: await echoesOf(body, prompts, engine),
    isEchoOnly: body.max_tokens === 0,
    returnTokenIds: body.return_token_ids ?? engine.tokenizer === null,
    ...usageFields(body),
  };
  const head = answerHead(context, engine, request, body, 'cmpl');
  logRequest(context, request, head, generation);
  return { isStream: body.stream ?? false, generation, format: new CompletionFormat(head, generation) };
}

function samplingOf(body: CompletionRequest, engine: InferenceEngine): SamplingParams {
  if (body.max_tokens === 0 && !body.echo) {
    throw new InvalidRequestError('max_tokens must be at least 1, got 0 (0 is possible with echo)', {
      param: 'max_tokens',
    });
  }
  checkMaxTokens(body.max_tokens ?? 0, 'max_tokens', engine.info.maxModelLen);
  const max_tokens = body.max_tokens ?? engine.samplingDefaults.max_tokens ?? DEFAULT_MAX_TOKENS;
  return resolveSamplingParams({ ...body, max_tokens: Math.max(1, max_tokens) }, engine.samplingDefaults);
}

/** The protocol's own default counts as asked for; one that the model brings is cut to what is left. */
function requestedTokens(body: CompletionRequest, engine: InferenceEngine): number {
  const fallback = engine.samplingDefaults.max_tokens === undefined ? DEFAULT_MAX_TOKENS : 0;
  return body.max_tokens ?? fallback;
}

async function echoesOf(
  body: CompletionRequest,
  prompts: readonly PreparedRequest[],
  engine: InferenceEngine,
): Promise<string[]> {
  if (!body.echo) return prompts.map(() => '');
  const skipSpecialTokens = body.skip_special_tokens ?? true;
  return Promise.all(
    body.prompt.map(async (prompt) => {
      if ('text' in prompt) return prompt.text;
      return (await engine.tokenizer?.decode(prompt.tokenIds, { skipSpecialTokens })) ?? '';
    }),
  );
}
