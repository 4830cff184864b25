// One line in the log for each request, when it is over.

import { type FastifyInstance, type FastifyReply, type FastifyRequest, LogController } from 'fastify';
import { shortened } from '../util/preview.ts';

/** Characters of a URL that a line repeats. */
const MAX_URL = 256;
/** Asked every few seconds by machines: their lines would bury the others. */
const QUIET_ROUTES = new Set(['/instances', '/health', '/ping', '/load', '/metrics']);

export class AccessLog extends LogController {
  readonly #logsAll: boolean;

  /** @param logsAll false leaves out whatever was answered completely. */
  constructor(logsAll = true) {
    super();
    this.#logsAll = logsAll;
  }

  override incomingRequest(): void {}

  /** Of those with an error `observe` tells. */
  override requestCompleted(
    error: Error | null | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void {
    if (this.#logsAll && !error) log('request', request, reply);
  }

  /** Tells as well of requests to `app` whose connection ends before the answer does, of which fastify says nothing. */
  observe(app: FastifyInstance): void {
    app.addHook('onRequest', async (request, reply) => {
      let isComplete = false;
      reply.raw.once('finish', () => {
        isComplete = true;
      });
      reply.raw.once('close', () => {
        if (!isComplete) log('client left before the answer was complete', request, reply);
      });
    });
  }
}

function log(what: string, request: FastifyRequest, reply: FastifyReply): void {
  const line = {
    method: request.method,
    url: shortened(request.url, MAX_URL),
    status: reply.raw.statusCode,
    milliseconds: Math.round(reply.elapsedTime),
    client: request.ip,
  };
  if (QUIET_ROUTES.has(request.routeOptions.url ?? '')) request.log.debug(line, what);
  else request.log.info(line, what);
}
