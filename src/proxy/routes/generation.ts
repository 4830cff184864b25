// POST /v1/completions and /v1/chat/completions: opens a call for each request and lets the proxy lead it through.

import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { parseRequestId } from '../../cluster/request-id.ts';
import { REQUEST_ID } from '../../http/app.ts';
import { Call, ClientGoneError } from '../call.ts';
import { ClientReply } from '../client-reply.ts';
import type { Job } from '../job.ts';
import type { JobPath } from '../prompt.ts';
import { authorizationFor, callerOf, type ProxyContext } from '../proxy-context.ts';

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
  const id = answerId(request, job);
  const client = new ClientReply(reply, id, context.deadlines.slowClient);
  const call = new Call(job, client, {
    id,
    caller: callerOf(context, request),
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

/** The client's own id, in the header before the body, or a random one. Ids that name instances are for the proxy to make. */
function answerId({ headers, id }: FastifyRequest, { requestId }: Job): string {
  const isOwn = headers['x-request-id'] === id;
  const given = isOwn ? id : requestId;
  const isUsable = given !== null && REQUEST_ID.test(given) && parseRequestId(given) === null;
  if (isUsable) return given;
  return isOwn ? randomUUID().replaceAll('-', '') : id;
}
