// The course of a generation request that both endpoints share: room, deadline, the answer in one piece or as events,
// and what happens when it fails on the way.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { InferenceEngine, Ticket } from '../../engine/inference-engine.ts';
import { toSvcError } from '../../http/errors.ts';
import { ClientGoneError } from '../../http/in-flight.ts';
import { SseStream } from '../../http/sse.ts';
import { summary } from '../../util/preview.ts';
import { sharedAbortController } from '../../util/shared-abort.ts';
import { generateBody, generateEvents } from '../answer.ts';
import type { AnswerFormat, AnswerHead } from '../answer-format.ts';
import type { CommonBody } from '../field-checks.ts';
import { type Generation, type GenerationRun, numSequences } from '../generation.ts';
import { proxiedAnswerId } from '../proxied-request.ts';
import type { ServerContext } from '../server-context.ts';

/** A request that has passed every check. */
export interface GenerationJob {
  readonly isStream: boolean;
  readonly generation: Generation;
  readonly format: AnswerFormat;
}

/** Answers one request; `read` turns its body into a job. */
export async function answerGeneration(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  read: (engine: InferenceEngine) => Promise<GenerationJob>,
): Promise<unknown> {
  const { engine } = context;
  const caller = context.callerOf(request);
  // A full server does not read what it cannot take.
  engine.checkRoom(caller);
  const controller = sharedAbortController();
  const { requestTimeoutMs } = context.options;
  context.inFlight.add(controller, reply, { requestId: request.id, timeoutMs: requestTimeoutMs });
  const { signal } = controller;
  let ticket: Ticket | null = null;
  try {
    const job = await read(engine);
    signal.throwIfAborted();
    ticket = engine.admit(caller, numSequences(job.generation));
    const run = { signal, ticket };
    if (!job.isStream) return await generateBody(engine, job.generation, job.format, run);
    const sse = new SseStream(reply, { writeTimeoutMs: context.options.writeTimeoutMs });
    await stream(engine, job, run, sse, request, controller);
  } catch (error) {
    // The other prompts of the request would go on for nobody.
    controller.abort(error);
    if (!(error instanceof ClientGoneError)) throw error;
    reply.hijack();
  } finally {
    ticket?.close();
  }
  return undefined;
}

/** Nothing thrown in here can become a status any more: it becomes an event. */
async function stream(
  engine: InferenceEngine,
  { generation, format }: GenerationJob,
  run: GenerationRun,
  sse: SseStream,
  request: FastifyRequest,
  controller: AbortController,
): Promise<void> {
  try {
    await generateEvents(engine, generation, format, sse, run);
    sse.end();
  } catch (error) {
    controller.abort(error);
    if (error instanceof ClientGoneError) return;
    if (toSvcError(error).status === 500) request.log.error({ err: error }, 'stream failed');
    sse.fail(error);
  }
}

/** What the answer is to tell beside its text. */
export function reportFields(
  { options }: ServerContext,
  body: CommonBody,
): Pick<
  Generation,
  'includeUsage' | 'continuousUsage' | 'showsCachedTokens' | 'returnPromptLogprobs' | 'areTokensIds'
> {
  return {
    includeUsage: body.stream_options?.include_usage ?? false,
    continuousUsage: body.stream_options?.continuous_usage_stats ?? false,
    showsCachedTokens: options.showsCachedTokens,
    returnPromptLogprobs: body.prompt_logprobs != null,
    areTokensIds: body.return_tokens_as_token_ids ?? false,
  };
}

/** The answer's id is the one that a proxy or the client chose, in a header before the body; else the one that the log has. */
export function answerHead(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  body: CommonBody,
  prefix: string,
): AnswerHead {
  const hasOwnHeader = request.headers['x-request-id'] === request.id;
  const base = proxiedAnswerId(request) ?? (hasOwnHeader ? request.id : (body.request_id ?? request.id));
  const created = body.svc_resume?.created ?? Math.floor(Date.now() / 1000);
  return {
    id: `${prefix}-${base}`,
    created,
    model: context.modelNames(engine)[0],
    system_fingerprint: context.systemFingerprint(engine),
  };
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
  request.log.info(
    { id, params: summary(prompts[0]?.params), promptTokens: summary(promptTokens) },
    'received request',
  );
}
