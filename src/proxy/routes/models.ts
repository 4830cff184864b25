// GET /v1/models: what an instance answers, as it answers it.

import type { FastifyInstance } from 'fastify';
import { NotReadyError } from '../../errors.ts';
import { ClientReply } from '../client-reply.ts';
import { Leg } from '../leg.ts';
import { LegFailure } from '../leg-failure.ts';
import { authorizationFor, type ProxyContext } from '../proxy-context.ts';

const MAX_TRIES = 3;

export function modelsRoute(app: FastifyInstance, context: ProxyContext): void {
  app.get('/v1/models', async (request, reply) => {
    context.calls.checkOpen();
    const authorization = authorizationFor(context, request);
    const headers = authorization === undefined ? {} : { authorization };
    const instances = context.instances.ready(({ mayDecode }) => mayDecode);
    for (const instance of instances.toSorted(bySuspicion).slice(0, MAX_TRIES)) {
      try {
        const leg = new Leg(instance, { method: 'GET', path: '/v1/models', headers, body: null });
        const head = await leg.head;
        const body = await leg.whole();
        new ClientReply(reply, request.id, context.deadlines.slowClient).send(head, body);
        return;
      } catch (error) {
        if (!(error instanceof LegFailure)) throw error;
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
