// Routes for monitoring: GET /health and /ping, GET /version with the choices made at start, GET /load.

import type { FastifyInstance, FastifyReply } from 'fastify';
import { errorBody, errorHeaders, toSvcError } from '../../http/errors.ts';
import type { ServerContext } from '../server-context.ts';

export function statusRoutes(app: FastifyInstance, context: ServerContext): void {
  const health = async (_: unknown, reply: FastifyReply): Promise<unknown> => answerHealth(context, reply);
  app.get('/health', health);
  app.route({ method: ['GET', 'POST'], url: '/ping', handler: health });
  app.get('/version', async () => {
    const { info, numEngines } = context.engine;
    return { version: context.options.version, engine: info, numEngines };
  });
  app.get('/load', async () => ({ server_load: context.inFlight.size }));
}

/** 200 with an empty body, or 503 with the reason: whatever is wrong, requests belong elsewhere. */
function answerHealth(context: ServerContext, reply: FastifyReply): unknown {
  try {
    void context.engine;
    return reply.code(200).send();
  } catch (thrown) {
    const error = toSvcError(thrown);
    const { error: body } = errorBody(error);
    return reply
      .code(503)
      .headers(errorHeaders(error))
      .send({ error: { ...body, code: 503 } });
  }
}
