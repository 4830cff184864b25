// GET /metrics: the counters and gauges of the engine in the text format of Prometheus.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../server-context.ts';
import { serverMetrics } from '../server-metrics.ts';

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export function metricsRoute(app: FastifyInstance, context: ServerContext): void {
  let read: (() => Promise<string>) | null = null;
  app.get('/metrics', async (_, reply) => {
    const engine = context.livingEngine ?? context.engine;
    read ??= serverMetrics(engine, context.modelNames(engine)[0]);
    return reply.type(CONTENT_TYPE).send(await read());
  });
}
