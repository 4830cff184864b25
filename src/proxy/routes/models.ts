// GET /v1/models: what an instance answers, as it answers it.

import type { FastifyInstance } from 'fastify';
import { NotReadyError } from '../../errors.ts';
import { ClientResponse } from '../client-response.ts';
import { UpstreamFailure } from '../instance.ts';
import type { ProxyContext } from '../proxy-context.ts';
import { UpstreamRequest } from '../upstream-request.ts';

const MAX_INSTANCES_ASKED = 3;

export function modelsRoute(app: FastifyInstance, context: ProxyContext): void {
  app.get('/v1/models', async (request, reply) => {
    context.checkOpen();
    const authorization = context.authorizationFor(request);
    const headers = authorization === undefined ? {} : { authorization };
    const instances = context.instances.ready(({ mayDecode }) => mayDecode);
    for (const instance of instances.toSorted(bySuspicion).slice(0, MAX_INSTANCES_ASKED)) {
      try {
        const about = { method: 'GET', path: '/v1/models', headers, body: null } as const;
        const upstream = new UpstreamRequest(instance, about);
        const head = await upstream.head;
        const body = await upstream.whole();
        new ClientResponse(reply, request.id, context.deadlines.slowClient).send(head, body);
        return;
      } catch (error) {
        if (!(error instanceof UpstreamFailure)) throw error;
      }
    }
    throw new NotReadyError('No instance is there to say which models it has: come again in a few seconds', {
      retryAfter: 3,
    });
  });
}

function bySuspicion(a: { isSuspect: boolean }, b: { isSuspect: boolean }): number {
  return Number(a.isSuspect) - Number(b.isSuspect);
}
