// What is counted of requests, to the byte.

import { expect, it } from 'vitest';
import { createHttpApp } from '../../src/http/app.ts';
import { HttpMetrics } from '../../src/http/http-metrics.ts';
import { portOf } from '../../src/http/listen.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { RawClient } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';

const opened = closedAfterwards();

it('each request of a connection has its own bytes and its own time', async () => {
  const metrics = new HttpMetrics();
  const app = createHttpApp({ metrics });
  app.get('/items', async () => ({ item: 'x'.repeat(100) }));
  await app.listen({ host: '127.0.0.1', port: 0 });
  opened(app);
  const sumOf = async (name: string): Promise<number> => {
    const text = await metrics.registry.getSingleMetricAsString(name);
    return Number(new RegExp(`^${name}_sum.* (\\S+)$`, 'm').exec(text)?.[1]);
  };
  const numCounted = async (): Promise<number> => {
    const { values } = await metrics.registry.getSingleMetric('http_requests_total')!.get();
    return values.reduce((sum, { value }) => sum + value, 0);
  };
  const start = performance.now();
  const client = new RawClient(portOf(app), '');
  opened({ close: () => client.leave() });
  for (const count of [1, 2, 3]) {
    client.socket.write('GET /items HTTP/1.1\r\nHost: a\r\n\r\n');
    await until(async () => (await numCounted()) === count);
  }
  await until(() => client.received.split('HTTP/1.1 200').length === 4);
  const elapsed = (performance.now() - start) / 1000;
  expect(await sumOf('http_response_size_bytes')).toBe(client.received.length);
  expect(await sumOf('http_request_size_bytes')).toBe(0);
  expect(await sumOf('http_request_duration_seconds')).toBeGreaterThan(0);
  expect(await sumOf('http_request_duration_seconds')).toBeLessThan(elapsed);
});
