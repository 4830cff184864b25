// The routes about responses that were kept: behind a proxy none are.

import type { FastifyInstance } from 'fastify';
import { NotFoundError } from '../../errors.ts';

export function keptResponseRoutes(app: FastifyInstance): void {
  app.all('/v1/responses/*', async () => {
    throw new NotFoundError(
      'No responses are kept behind a proxy, since any instance may get the next request: ' +
        'send the whole conversation as input items of POST /v1/responses',
      { param: 'id' },
    );
  });
}
