// Routes that any instance answers alike, and as it answers them: which models there are, token ids, the document of the API.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { NotReadyError } from '../../errors.ts';
import { ClientResponse } from '../client-response.ts';
import { UpstreamFailure } from '../instance.ts';
import { keyRefused } from '../instance-key.ts';
import type { ProxyContext } from '../proxy-context.ts';
import { UpstreamRequest } from '../upstream-request.ts';

const MAX_INSTANCES_ASKED = 3;
/** Milliseconds without a byte after which an instance is given up. */
const MAX_SILENCE = 30_000;

const ROUTES = [
  { method: 'GET', path: '/v1/models' },
  // A model's name may hold slashes.
  { method: 'GET', path: '/v1/models/*' },
  { method: 'POST', path: '/tokenize' },
  { method: 'POST', path: '/detokenize' },
  { method: 'GET', path: '/tokenizer_info' },
  { method: 'GET', path: '/openapi.json' },
  { method: 'GET', path: '/docs' },
] as const;

export function anyInstanceRoutes(app: FastifyInstance, context: ProxyContext): void {
  for (const route of ROUTES) {
    app.route({
      method: route.method,
      url: route.path,
      handler: (request, reply) => ask(context, route.method, request, reply),
    });
  }
}

async function ask(
  context: ProxyContext,
  method: 'GET' | 'POST',
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  context.checkOpen();
  const body = Buffer.isBuffer(request.body) ? request.body : null;
  const authorization = context.instanceKey.headerFor(request.headers);
  const headers = {
    ...(authorization !== undefined && { authorization }),
    ...(body !== null && { 'content-type': 'application/json' }),
  };
  const instances = context.instances.ready(({ mayDecode }) => mayDecode);
  for (const instance of instances.toSorted(bySuspicion).slice(0, MAX_INSTANCES_ASKED)) {
    try {
      const upstream = new UpstreamRequest(instance, { method, path: request.url, headers, body });
      upstream.maxSilence = MAX_SILENCE;
      const head = await upstream.head;
      const whole = await upstream.whole();
      if (context.instanceKey.isRefused(instance, head.status)) throw keyRefused(instance);
      new ClientResponse(reply, request.id, context.deadlines.slowClient).send(head, whole);
      return;
    } catch (error) {
      if (!(error instanceof UpstreamFailure)) throw error;
    }
  }
  throw new NotReadyError(`No instance is there to answer ${request.url}: come again in a few seconds`, {
    retryAfter: 3,
  });
}

function bySuspicion(a: { isSuspect: boolean }, b: { isSuspect: boolean }): number {
  return Number(a.isSuspect) - Number(b.isSuspect);
}
