// The endpoints that instances answer.

import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { parseRequestId } from '../../cluster/request-id.ts';
import { REQUEST_ID } from '../../http/app.ts';
import { ClientRequest } from '../client-request.ts';
import { ClientResponse } from '../client-response.ts';
import type { EndpointAdapter } from '../endpoints/endpoint.ts';
import { ENDPOINTS } from '../endpoints/endpoints.ts';
import type { ProxyContext } from '../proxy-context.ts';

/** What the count of answers has in place of a status where the client has left. */
const CLIENT_LEFT = 499;

export function generationRoutes(app: FastifyInstance, context: ProxyContext): void {
  for (const endpoint of ENDPOINTS) {
    app.post(endpoint.path, (request, reply) => answer(context, endpoint, request, reply));
  }
}

async function answer(
  context: ProxyContext,
  endpoint: EndpointAdapter,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  context.checkRoom();
  const body = await context.bodies.read(endpoint, request.body);
  // Others may have come while it was read.
  context.checkRoom();
  const id = answerId(request, body.requestId);
  const response = new ClientResponse(reply, id, context.deadlines.slowClient);
  const caller = context.callerOf(request);
  const authorization = context.instanceKey.headerFor(request.headers);
  const span = context.tracing?.request('proxy_request', request.headers) ?? null;
  span?.set({ 'gen_ai.request.id': id });
  const forwarded = new ClientRequest({ endpoint, body, response, id, caller, authorization, span });
  context.inFlight.add(forwarded, reply, {
    requestId: id,
    timeoutMs: context.config.requestTimeout * 1000,
    onClosed: (isComplete) => {
      const status = isComplete ? (forwarded.progress.errorStatus ?? reply.raw.statusCode) : CLIENT_LEFT;
      context.metrics.requests.inc({ status });
      span?.set({ 'http.response.status_code': status });
      span?.end();
    },
  });
  await context.forwarder.answer(forwarded);
}

/** The client's own id, from the header or else from the body, or a random one. Only the proxy makes ids that name instances. */
function answerId({ headers, id }: FastifyRequest, inBody: string | null): string {
  const isOwn = headers['x-request-id'] === id;
  const given = isOwn ? id : inBody;
  const isUsable = given !== null && REQUEST_ID.test(given) && parseRequestId(given) === null;
  if (isUsable) return given;
  return isOwn ? randomUUID().replaceAll('-', '') : id;
}
