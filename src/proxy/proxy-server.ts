// The proxy as a server: discovery and the clients' port are bound together, and drained before they close.

import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { ProxyConfig } from '../config/proxy-options.ts';
import { ShuttingDownError } from '../errors.ts';
import { createHttpApp } from '../http/app.ts';
import { ApiKeys } from '../http/auth.ts';
import { InFlightRequests } from '../http/in-flight.ts';
import { listen, portOf, urlOf } from '../http/listen.ts';
import { BodyReader } from './body-reader.ts';
import { CancelNotifier } from './cancel-notifier.ts';
import { PROXY_DEADLINES, type ProxyDeadlines } from './deadlines.ts';
import { Discovery } from './discovery.ts';
import { Forwarder } from './forwarder.ts';
import { InstancePicker } from './instance-picker.ts';
import { Instances } from './instances.ts';
import { ProxyMetrics } from './metrics.ts';
import type { ProxyContext } from './proxy-context.ts';
import { RecentTransfers } from './recent-transfers.ts';
import { generationRoutes } from './routes/generation.ts';
import { modelsRoute } from './routes/models.ts';
import { statusRoutes } from './routes/status.ts';

/** 64 MB: prompts of token ids are long. */
const BODY_LIMIT = 64 * 1024 * 1024;

export interface ProxyServerOptions {
  readonly logger?: Logger | undefined;
  /** The key that instances want, where clients show the proxy one of its own. */
  readonly instanceKey?: string | undefined;
  readonly version?: string | undefined;
  readonly deadlines?: ProxyDeadlines | undefined;
}

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
    const context = makeContext(config, options);
    const discovery = await Discovery.open({
      host: config.discoveryHost,
      port: config.discoveryPort,
      secret: config.secret,
      registered: (message) => {
        if (!context.instances.register(message)) context.metrics.refusedRegistration();
      },
      refused: (why) => {
        context.metrics.refusedRegistration();
        options.logger?.debug({ why }, 'a registration could not be used');
      },
    });
    const app = makeApp(config, context, options.logger);
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

function makeContext(config: ProxyConfig, options: ProxyServerOptions): ProxyContext {
  const { logger, deadlines = PROXY_DEADLINES } = options;
  const inFlight = new InFlightRequests();
  const instances = new Instances(deadlines, {
    changed: ({ type, httpAddress, model }, state) =>
      logger?.info({ type, address: httpAddress, ...(model !== null && { model }) }, `instance is ${state}`),
    failed: (instance) => metrics.failed(instance),
    forgotten: (instance) => metrics.forget(instance),
  });
  const metrics = new ProxyMetrics(
    () => inFlight.size,
    () => instances.all,
  );
  const picker = new InstancePicker(instances, config.policy, config.prefillThreshold);
  const recent = new RecentTransfers();
  const cancels = new CancelNotifier(metrics, deadlines.cancel);
  const { streamSilence } = deadlines;
  const hasOwnKeys = config.apiKeys.length > 0;
  return {
    bodies: new BodyReader(),
    forwarder: new Forwarder({ picker, metrics, cancels, recent, streamSilence }),
    picker,
    instances,
    inFlight,
    maxInFlight: config.maxInFlight,
    metrics,
    recent,
    deadlines,
    policy: config.policy,
    version: options.version ?? '',
    requestTimeoutMs: config.requestTimeoutSeconds * 1000,
    apiKeys: new ApiKeys(config.apiKeys),
    instanceKey: hasOwnKeys && options.instanceKey !== '' ? options.instanceKey : undefined,
  };
}

function makeApp(
  { apiKeys, cors, logLevel }: ProxyConfig,
  context: ProxyContext,
  logger: Logger | undefined,
): FastifyInstance {
  const app = createHttpApp({
    apiKeys,
    cors,
    bodyLimit: BODY_LIMIT,
    keepsBodyBytes: true,
    // A line for each request would cost as much as the request.
    logger: logger?.child({}, { level: logLevel === 'info' ? 'warn' : logLevel }),
  });
  generationRoutes(app, context);
  modelsRoute(app, context);
  statusRoutes(app, context);
  return app;
}
