// Handles every POST to a pooling model: admission, the endpoint's own parsing, its sequences through the engine, the answer.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type * as z from 'zod';
import type { InferenceEngine, PreparedPooling, ServedAdapter } from '../../engine/inference-engine.ts';
import { NotAvailableError } from '../../errors.ts';
import { replyJson } from '../../http/json-reply.ts';
import type { Client } from '../../util/client.ts';
import { answerAdmitted } from '../admitted.ts';
import { checkPriority } from '../field-checks.ts';
import { logRequest } from '../log-request.ts';
import { parseBody } from '../parse-body.ts';
import { ignoredPoolingFields, type PoolingFields, unknownFields } from '../protocol/pooling.ts';
import type { ServerContext } from '../server-context.ts';
import { startEach } from '../start-each.ts';

/** A checked request: the sequences that the engine computes, and what is made of their numbers. */
export interface ParsedPooling {
  readonly prompts: readonly PreparedPooling[];
  /** @param pooled numbers of each sequence. */
  answer(pooled: readonly Float32Array[]): object;
}

/** What all answers of a request repeat. */
export interface PoolingHead {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
}

export interface PoolingEndpoint<S extends z.ZodObject = z.ZodObject> {
  /** All lead to the same. */
  readonly paths: readonly string[];
  readonly summary: string;
  readonly schema: S;
  /**
   * @param client ends it between two prompts.
   * @throws SvcError where the request must be refused.
   */
  parse(
    engine: InferenceEngine,
    body: z.output<S>,
    head: PoolingHead,
    client: Client,
  ): Promise<ParsedPooling>;
}

export function poolingRoute<S extends z.ZodObject>(
  app: FastifyInstance,
  context: ServerContext,
  endpoint: PoolingEndpoint<S>,
): void {
  const about = { summary: endpoint.summary, body: endpoint.schema, ignored: ignoredPoolingFields };
  for (const path of endpoint.paths) {
    app.post(path, { config: { about } }, (request, reply) => pool(context, endpoint, request, reply));
  }
}

export async function pool<S extends z.ZodObject>(
  context: ServerContext,
  endpoint: PoolingEndpoint<S>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  return answerAdmitted(context, request, reply, async ({ engine, client, open }) => {
    engine.expectPooling();
    const body = parseBody(endpoint.schema, request.body);
    checkFields(context, engine, endpoint.schema, body);
    const { prompts, answer } = await endpoint.parse(engine, body, headOf(context, engine, request), client);
    await logRequest(request.log, engine, { id: request.id, prompts }, context.options);
    const ticket = open(prompts.length, numTokensOf(prompts));
    const pooled = await startEach(prompts.length, (index) =>
      engine.pool(prompts[index]!, client.signal, ticket),
    );
    return replyJson(reply, answer(pooled));
  });
}

/** What all endpoints make of a prompt. */
export function poolingOptions({ truncate_prompt_tokens, priority }: PoolingFields, client: Client) {
  return { truncateTo: truncate_prompt_tokens ?? null, priority: priority ?? 0, ...client };
}

/** Tokens of all prompts. */
export function numTokensOf(prompts: readonly PreparedPooling[]): number {
  return prompts.reduce((sum, { promptTokenIds }) => sum + promptTokenIds.length, 0);
}

function checkFields(
  context: ServerContext,
  engine: InferenceEngine,
  schema: z.ZodObject,
  body: PoolingFields,
): void {
  refuseAdapter(context.adapterOf(body.model, engine));
  checkPriority(body, engine);
  context.reportUnknownFields(unknownFields(schema, body));
}

function refuseAdapter(adapter: ServedAdapter | null): void {
  if (adapter === null) return;
  throw new NotAvailableError(
    `${adapter.name} is an adapter, and this endpoint is answered by the model alone: leave out model, or name the model itself`,
    { param: 'model' },
  );
}

function headOf(context: ServerContext, engine: InferenceEngine, { id }: FastifyRequest): PoolingHead {
  return { id, created: Math.floor(Date.now() / 1000), model: context.modelNames(engine)[0] };
}
