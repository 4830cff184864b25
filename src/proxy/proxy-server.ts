// The proxy as a server: discovery and the clients' port are bound together, and drained before they close.

import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { ProxyConfig } from '../config/proxy-options.ts';
import { ShuttingDownError } from '../errors.ts';
import { rememberRoutes } from '../http/api-paths.ts';
import { createHttpApp } from '../http/app.ts';
import { listen, portOf, urlOf } from '../http/listen.ts';
import { pageRoute } from '../http/page.ts';
import { Discovery } from './discovery.ts';
import { ProxyContext, type ProxyServerOptions } from './proxy-context.ts';
import { anyInstanceRoutes } from './routes/any-instance.ts';
import { generationRoutes } from './routes/generation.ts';
import { keptResponseRoutes } from './routes/responses.ts';
import { statusRoutes } from './routes/status.ts';

/** Reasons to refuse a registration that a person is told, each once. */
const MAX_TOLD = 100;

export class ProxyServer {
  readonly #app: FastifyInstance;
  readonly #context: ProxyContext;
  readonly #discovery: Discovery;
  readonly #host: string;

  private constructor(app: FastifyInstance, context: ProxyContext, discovery: Discovery, host: string) {
    this.#app = app;
    this.#context = context;
    this.#discovery = discovery;
    this.#host = host;
  }

  /** @throws ConfigError where one of the ports cannot be had. */
  static async listen(config: ProxyConfig, options: ProxyServerOptions = {}): Promise<ProxyServer> {
    const context = new ProxyContext(config, options);
    const { logger } = options;
    const told = new Set<string>();
    const discovery = await Discovery.open({
      host: config.discoveryHost,
      port: config.discoveryPort,
      secret: config.kvTransferSecret,
      registered: (message) => {
        if (!context.instances.register(message)) context.metrics.refusedRegistrations.inc();
      },
      refused: (why) => {
        context.metrics.refusedRegistrations.inc();
        const isNews = told.size < MAX_TOLD && !told.has(why);
        if (isNews) told.add(why);
        logger?.[isNews ? 'warn' : 'debug']({ why }, 'a registration could not be used');
      },
    });
    const app = makeApp(context, logger);
    const server = new ProxyServer(app, context, discovery, config.host);
    try {
      await listen(app, config);
    } catch (error) {
      await server.close();
      throw error;
    }
    return server;
  }

  get port(): number {
    return portOf(this.#app);
  }

  /** `http://127.0.0.1:10001` */
  get url(): string {
    return urlOf(this.#app, this.#host);
  }

  /** `127.0.0.1:30001` */
  get discoveryAddress(): string {
    return this.#discovery.address;
  }

  get numInFlight(): number {
    return this.#context.inFlight.size;
  }

  /**
   * Takes no more connections, lets what is in flight finish for `deadlineMs`, ends the rest with an error that says
   * why, and closes.
   * @returns how many requests had to be ended.
   */
  async drain(deadlineMs: number): Promise<number> {
    const { inFlight } = this.#context;
    this.#app.server.close();
    this.#app.server.closeIdleConnections();
    const stopped = new ShuttingDownError('The proxy is shutting down and could not finish this request');
    const numStopped = await inFlight.drain(deadlineMs, stopped);
    await this.close();
    return numStopped;
  }

  /** Closes at once: requests in flight lose their connection. */
  async close(): Promise<void> {
    this.#context.inFlight.startDraining();
    this.#app.server.closeAllConnections();
    await this.#app.close();
    this.#discovery.close();
    this.#context.instances.close();
    await this.#context.bodies.close();
  }
}

function makeApp(context: ProxyContext, logger: Logger | undefined): FastifyInstance {
  const { apiKey, cors, logLevel } = context.config;
  const app = createHttpApp({
    apiKeys: apiKey,
    cors,
    metrics: context.httpMetrics,
    keepsBodyBytes: true,
    // A line for each request would cost as much as the request.
    logger: logger?.child({}, { level: logLevel === 'info' ? 'warn' : logLevel }),
  });
  const routes = rememberRoutes(app);
  generationRoutes(app, context);
  keptResponseRoutes(app);
  anyInstanceRoutes(app, context, routes);
  statusRoutes(app, context);
  if (context.config.ui) pageRoute(app, 'proxy');
  return app;
}
