// GET /metrics: the counters, gauges and histograms of this server in the text format of Prometheus.

import type { FastifyInstance } from 'fastify';
import type { ServerContext } from '../server-context.ts';

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export function metricsRoute(app: FastifyInstance, context: ServerContext): void {
  app.get('/metrics', async (_, reply) => reply.type(CONTENT_TYPE).send(await context.readMetrics()));
}
