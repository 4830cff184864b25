// Metrics of HTTP: how many requests each route got, how they ended, how long they took and how large they were. Names, labels and
// bounds are those that web frameworks of other servers have.

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Counter, Histogram, Registry, Summary } from 'prom-client';

/** Asked every few seconds by machines. */
const NOT_COUNTED = new Set(['/metrics', '/health', '/load', '/ping', '/version']);
const SECONDS = [0.1, 0.5, 1];
const FINE_SECONDS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
];
/** What counts as the status where the client has left. */
const CLIENT_LEFT = 499;

interface Answered {
  readonly status: number;
  readonly seconds: number;
  /** Bytes that its connection has sent since the request came. */
  readonly numSent: number;
}

export class HttpMetrics {
  readonly registry = new Registry();
  readonly #requests = new Counter({
    name: 'http_requests_total',
    help: 'Requests that are over, by route, method and class of status',
    labelNames: ['handler', 'method', 'status'],
    registers: [this.registry],
  });
  readonly #seconds = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'From the headers of a request to the end of its answer, by route',
    labelNames: ['handler', 'method'],
    buckets: SECONDS,
    registers: [this.registry],
  });
  readonly #fineSeconds = new Histogram({
    name: 'http_request_duration_highr_seconds',
    help: 'The same for all routes together, with more bounds',
    buckets: FINE_SECONDS,
    registers: [this.registry],
  });
  readonly #requestBytes = this.#bytes('http_request_size_bytes', 'Content-Length of requests');
  readonly #responseBytes = this.#bytes('http_response_size_bytes', 'Bytes of answers as they were sent');

  /** Counts the requests of all routes that are added to `app` from now on, and those that find none. */
  observe(app: FastifyInstance): void {
    app.addHook('onRequest', async (request, { raw }) => {
      const handler = request.routeOptions.url ?? 'none';
      if (NOT_COUNTED.has(handler)) return;
      const startedAt = performance.now();
      const sentBefore = request.raw.socket.bytesWritten;
      raw.once('close', () =>
        this.#count(request, handler, {
          status: raw.writableFinished ? raw.statusCode : CLIENT_LEFT,
          seconds: (performance.now() - startedAt) / 1000,
          numSent: request.raw.socket.bytesWritten - sentBefore,
        }),
      );
    });
  }

  #count({ method, headers }: FastifyRequest, handler: string, { status, seconds, numSent }: Answered): void {
    this.#requests.inc({ handler, method, status: `${Math.floor(status / 100)}xx` });
    this.#seconds.observe({ handler, method }, seconds);
    this.#fineSeconds.observe(seconds);
    this.#requestBytes.observe({ handler }, Number(headers['content-length'] ?? 0));
    this.#responseBytes.observe({ handler }, numSent);
  }

  #bytes(name: string, help: string): Summary<'handler'> {
    return new Summary({ name, help, labelNames: ['handler'], percentiles: [], registers: [this.registry] });
  }
}
