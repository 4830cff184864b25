// The routes about the proxy itself: /health and /ping, /load, /metrics, /instances and /version.

import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Instance } from '../instance.ts';
import type { ProxyContext } from '../proxy-context.ts';

export function statusRoutes(app: FastifyInstance, context: ProxyContext): void {
  const health = async (_request: unknown, reply: FastifyReply): Promise<object> => {
    const canServe = !context.inFlight.isDraining && context.picker.canServe;
    const count = (type: 'P' | 'D'): number =>
      context.instances.ready((instance) => instance.type === type).length;
    if (!canServe) reply.code(503).header('retry-after', '3');
    return { status: canServe ? 'ok' : 'no decode instance', prefill: count('P'), decode: count('D') };
  };
  app.get('/health', health);
  app.route({ method: ['GET', 'POST'], url: '/ping', handler: health });
  app.get('/load', async () => ({ server_load: context.inFlight.size }));
  app.get('/metrics', async (_request, reply) => {
    const { registry } = context.metrics;
    reply.type(registry.contentType);
    const texts = [registry, context.httpMetrics.registry].map((each) => each.metrics());
    return (await Promise.all(texts)).join('\n');
  });
  app.get('/instances', async () => ({
    instances: context.instances.all.map(described),
    transfers: context.recent.all,
    requests_in_flight: context.inFlight.size,
    policy: context.config.policy,
  }));
  app.get('/version', async () => ({ version: context.version }));
}

function described(instance: Instance): object {
  return {
    type: instance.type,
    http_address: instance.httpAddress,
    zmq_address: instance.zmqAddress,
    state: instance.state,
    is_suspect: instance.isSuspect,
    role: instance.registration.role ?? null,
    send_type: instance.registration.send_type ?? null,
    model: instance.model,
    load: instance.load,
    in_flight: instance.openRequests.size,
    seconds_since_heartbeat: Math.max(0, performance.now() - instance.seenAt) / 1000,
  };
}
