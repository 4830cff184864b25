// The course of a generation request that both endpoints share: checks of their common fields, then the answer in one
// piece or as events, and what happens when it fails on the way.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { InvalidRequestError, NotAvailableError } from '../../errors.ts';
import { toSvcError } from '../../http/errors.ts';
import { SseStream } from '../../http/sse.ts';
import { refuseUnavailable } from '../../sampling/sampling-params.ts';
import type { AnswerFormat, AnswerHead } from '../answer-format.ts';
import { type Generation, generateBody, generateEvents } from '../generation.ts';
import { ClientGoneError } from '../in-flight.ts';
import { ignoredFields } from '../protocol/common-fields.ts';
import type { ServerContext } from '../server-context.ts';

/** A request that has passed every check. */
export interface GenerationJob {
  readonly isStream: boolean;
  readonly generation: Generation;
  readonly format: AnswerFormat;
}

/** What an endpoint knows of fields beyond those that it serves. */
export interface FieldTables {
  readonly served: object;
  readonly unavailable: Readonly<Record<string, readonly unknown[]>>;
  readonly ignored: ReadonlySet<string>;
}

/** Fields that every generation request may have. */
export interface CommonBody extends Record<string, unknown> {
  readonly model?: string | null | undefined;
  readonly stream?: boolean | null | undefined;
  readonly stream_options?:
    | {
        readonly include_usage?: boolean | null | undefined;
        readonly continuous_usage_stats?: boolean | null | undefined;
      }
    | null
    | undefined;
  readonly request_id?: string | null | undefined;
  readonly response_format?: { readonly type: string } | null | undefined;
}

/** Answers one request; `read` turns its body into a job. */
export async function answerGeneration(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  read: (engine: InferenceEngine) => Promise<GenerationJob>,
): Promise<unknown> {
  const { engine } = context;
  const controller = context.inFlight.open(reply);
  const { signal } = controller;
  try {
    const job = await read(engine);
    signal.throwIfAborted();
    if (!job.isStream) return await generateBody(engine, job.generation, job.format, signal);
    await stream(context, engine, job, request, reply, controller);
  } catch (error) {
    // The other prompts of the request would go on for nobody.
    controller.abort(error);
    if (!(error instanceof ClientGoneError)) throw error;
    reply.hijack();
  }
  return undefined;
}

/** Nothing thrown in here can become a status any more: it becomes an event. */
async function stream(
  context: ServerContext,
  engine: InferenceEngine,
  job: GenerationJob,
  request: FastifyRequest,
  reply: FastifyReply,
  controller: AbortController,
): Promise<void> {
  const sse = new SseStream(reply, { writeTimeoutMs: context.options.writeTimeoutMs });
  try {
    await generateEvents(engine, job.generation, job.format, sse, controller.signal);
    sse.end();
  } catch (error) {
    controller.abort(error);
    if (error instanceof ClientGoneError) return;
    if (toSvcError(error).status === 500) request.log.error({ err: error }, 'stream failed');
    sse.fail(error);
  }
}

/** @throws NotFoundError, NotAvailableError or InvalidRequestError for what both endpoints refuse alike. */
export function checkCommonFields(
  context: ServerContext,
  engine: InferenceEngine,
  body: CommonBody,
  tables: FieldTables,
): void {
  context.checkModel(body.model, engine);
  refuseUnavailable(body, tables.unavailable);
  const format = body.response_format?.type;
  if (format !== undefined && format !== 'text') {
    throw new NotAvailableError(
      `response_format of type ${JSON.stringify(format)} is not available yet in this version of svc; use "text"`,
      { param: 'response_format' },
    );
  }
  if (body.stream_options && !body.stream) {
    throw new InvalidRequestError('stream_options is only for streams: set stream to true or leave it out', {
      param: 'stream_options',
    });
  }
  const { served, unavailable, ignored } = tables;
  const isKnown = (field: string): boolean =>
    Object.hasOwn(served, field) ||
    Object.hasOwn(unavailable, field) ||
    ignored.has(field) ||
    ignoredFields.has(field);
  context.reportUnknownFields(Object.keys(body).filter((field) => !isKnown(field)));
}

/** Which usage a stream is to carry. */
export function usageFields(body: CommonBody): Pick<Generation, 'includeUsage' | 'continuousUsage'> {
  return {
    includeUsage: body.stream_options?.include_usage ?? false,
    continuousUsage: body.stream_options?.continuous_usage_stats ?? false,
  };
}

/** The answer's id is the one that the client chose, in the header before the body; else the one that the log has. */
export function answerHead(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  body: CommonBody,
  prefix: string,
): AnswerHead {
  const hasOwnHeader = request.headers['x-request-id'] === request.id;
  const base = hasOwnHeader ? request.id : (body.request_id ?? request.id);
  const created = Math.floor(Date.now() / 1000);
  return { id: `${prefix}-${base}`, created, model: context.modelNames(engine)[0] };
}

/** One line a generation request, without its text. */
export function logRequest(
  context: ServerContext,
  request: FastifyRequest,
  { id }: AnswerHead,
  { prompts }: Generation,
): void {
  if (!context.options.logRequests) return;
  const promptTokens = prompts.map(({ promptTokenIds }) => promptTokenIds.length);
  request.log.info({ id, params: prompts[0]?.params, promptTokens }, 'received request');
}
