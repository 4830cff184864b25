// POST /v1/completions and /v1/chat/completions: opens a call for each request and lets the proxy lead it through.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Call, ClientGoneError } from '../call.ts';
import { ClientReply } from '../client-reply.ts';
import type { JobPath } from '../prompt.ts';
import { authorizationFor, type ProxyContext } from '../proxy-context.ts';

const PATHS: readonly JobPath[] = ['/v1/completions', '/v1/chat/completions'];

export function generationRoutes(app: FastifyInstance, context: ProxyContext): void {
  for (const path of PATHS) app.post(path, (request, reply) => answer(context, path, request, reply));
}

async function answer(
  context: ProxyContext,
  path: JobPath,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  context.calls.checkRoom();
  const job = await context.jobs.read(path, request.body);
  // Others may have come while it was read.
  context.calls.checkRoom();
  const hasOwnId = request.headers['x-request-id'] === request.id;
  const client = new ClientReply(reply, request.id, hasOwnId, context.deadlines.slowClient);
  const call = new Call(job, client, {
    id: request.id,
    authorization: authorizationFor(context, request),
    timeoutMs: context.requestTimeoutMs,
  });
  context.calls.add(call);
  client.onceClosed((isComplete) => {
    context.calls.delete(call);
    context.metrics.answered(isComplete ? client.status : 499);
    if (!isComplete) call.stop(new ClientGoneError('the client has closed the connection'));
  });
  await context.forwarder.answer(call);
}
