// Routes for operators and tests, there with SVC_SERVER_DEV_MODE=1 only: POST /reset_prefix_cache.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../server-context.ts';

export function devRoutes(app: FastifyInstance, context: ServerContext): void {
  // The cached blocks are in use while requests run: the answer says whether they could be forgotten.
  app.post('/reset_prefix_cache', async (_, reply) => {
    const isReset = await context.engine.resetPrefixCache();
    return reply.type('application/json').send(JSON.stringify(isReset));
  });
}
