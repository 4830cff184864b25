// Handles every POST that generates: admission, deadline, the endpoint's own parsing, the answer in one piece or as a
// stream, and failures on the way.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { InferenceEngine, PreparedRequest } from '../../engine/inference-engine.ts';
import { toSvcError } from '../../http/errors.ts';
import { ClientGoneError } from '../../http/in-flight.ts';
import { replyJson } from '../../http/json-reply.ts';
import { SseStream } from '../../http/sse.ts';
import type { Client } from '../../util/client.ts';
import { type AdmittedRequest, answerAdmitted } from '../admitted.ts';
import { logRequest } from '../log-request.ts';
import type { RouteAbout } from '../openapi.ts';
import type { GenerationRun, ParsedRequest } from '../parsed-request.ts';
import { respondStream, respondWhole } from '../respond.ts';
import type { ServerContext } from '../server-context.ts';
import { contentsOf } from '../system-fingerprint.ts';

/** Of a stream with a journal: only an instance of the same model and adapter may go on with it. */
const CONTENTS_HEADER = 'x-svc-contents';

export interface GenerationEndpoint {
  readonly path: string;
  readonly about?: RouteAbout;
  /**
   * @param client ends it between two prompts.
   * @throws SvcError where the request must be refused.
   */
  parse(
    context: ServerContext,
    engine: InferenceEngine,
    request: FastifyRequest,
    client: Client,
  ): Promise<ParsedRequest>;
}

export function generationRoute(
  app: FastifyInstance,
  context: ServerContext,
  endpoint: GenerationEndpoint,
): void {
  const { path, about = { summary: 'Generates' } } = endpoint;
  app.post(path, { config: { about } }, (request, reply) => generate(context, endpoint, request, reply));
}

export async function generate(
  context: ServerContext,
  endpoint: GenerationEndpoint,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  return answerAdmitted(context, request, reply, async ({ engine, controller, client, open }) => {
    engine.expectGenerating();
    const parsed = await endpoint.parse(context, engine, request, client);
    const { id, prompts } = parsed;
    await logRequest(request.log, engine, { id, prompts, params: prompts[0]?.params }, context.options);
    const adapter = parsed.prompts[0]?.adapter ?? null;
    const releaseAdapter = adapter === null ? () => {} : engine.adapters.use(adapter);
    try {
      const ticket = open(
        sumOver(parsed, () => 1),
        sumOver(parsed, ({ promptTokenIds }) => promptTokenIds.length),
      );
      const run = { signal: controller.signal, ticket };
      if (!parsed.isStream) return await replyJson(reply, await respondWhole(engine, parsed, run));
      if (parsed.keepsJournal) reply.header(CONTENTS_HEADER, contentsOf(engine.info, adapter));
      const sse = new SseStream(reply, context.options.writeTimeoutMs);
      return await stream(engine, parsed, run, sse, request, controller);
    } finally {
      releaseAdapter();
    }
  });
}

/** The status has been sent: an error can only be an event. */
async function stream(
  engine: InferenceEngine,
  parsed: ParsedRequest,
  run: GenerationRun,
  sse: SseStream,
  request: FastifyRequest,
  controller: AdmittedRequest['controller'],
): Promise<void> {
  try {
    await respondStream(engine, parsed, run, sse);
  } catch (thrown) {
    controller.abort(thrown);
    if (thrown instanceof ClientGoneError) return;
    const error = toSvcError(thrown);
    if (error.status === 500) request.log.error({ err: thrown }, 'stream failed');
    sse.end(parsed.writer.fail(error));
  }
}

/** Of all sequences. */
function sumOver({ prompts, bestOf }: ParsedRequest, of: (prompt: PreparedRequest) => number): number {
  return prompts.reduce((sum, prompt) => sum + (bestOf ?? prompt.params.n) * of(prompt), 0);
}
