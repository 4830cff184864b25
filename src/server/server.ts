// The HTTP server of one model: bound before the model is loaded, ready once it has an engine, drained before it
// closes.

import type { FastifyInstance } from 'fastify';
import type { InferenceEngine } from '../engine/inference-engine.ts';
import { ShuttingDownError } from '../errors.ts';
import { createHttpApp } from '../http/app.ts';
import { listen, portOf, urlOf } from '../http/listen.ts';
import { pageRoute } from '../http/page.ts';
import { describeRoutes } from './openapi.ts';
import { adapterRoutes } from './routes/adapters.ts';
import { chatCompletions } from './routes/chat-completions.ts';
import { completions } from './routes/completions.ts';
import { devRoutes } from './routes/dev.ts';
import { docsRoutes } from './routes/docs.ts';
import { embeddings } from './routes/embeddings.ts';
import { generationRoute } from './routes/generation-route.ts';
import { invocationsRoute } from './routes/invocations.ts';
import { kvTransferRoutes } from './routes/kv-transfer.ts';
import { countTokensRoute, messages } from './routes/messages.ts';
import { metricsRoute } from './routes/metrics.ts';
import { modelsRoute } from './routes/models.ts';
import { poolingRoute } from './routes/pooling-route.ts';
import { renderRoute } from './routes/render.ts';
import { inputTokensRoute, responses, storedResponseRoutes } from './routes/responses.ts';
import { rerank, score } from './routes/scores.ts';
import { statusRoutes } from './routes/status.ts';
import { tokenizeRoutes, tokenizerInfoRoute } from './routes/tokenize.ts';
import { ServerContext, type ServerOptions } from './server-context.ts';
import { logStats } from './stats-log.ts';

/** What a proxy adds to the longest body of a client: some fields, and the tokens of a stream that is to go on. */
const MAX_ADDED_BYTES = 8 * 1024 * 1024;

export class Server {
  readonly #app: FastifyInstance;
  readonly #context: ServerContext;
  readonly #options: ServerOptions;
  #stopStats: () => void = () => {};

  private constructor(app: FastifyInstance, context: ServerContext, options: ServerOptions) {
    this.#app = app;
    this.#context = context;
    this.#options = options;
  }

  /**
   * Binds the port; every request is answered 503 until `serve` brings an engine.
   * @throws ConfigError when the address cannot be had.
   */
  static async listen(options: ServerOptions): Promise<Server> {
    const context = new ServerContext(options);
    const addedBytes = options.exchangesKv ? MAX_ADDED_BYTES : 0;
    const app = createHttpApp({ ...options, addedBytes, metrics: context.httpMetrics });
    const document = describeRoutes(app, options.version);
    modelsRoute(app, context);
    for (const endpoint of [completions, chatCompletions, responses, messages])
      generationRoute(app, context, endpoint);
    renderRoute(app, context, completions, false);
    renderRoute(app, context, chatCompletions, true);
    storedResponseRoutes(app, context);
    countTokensRoute(app, context);
    inputTokensRoute(app, context);
    tokenizeRoutes(app, context);
    if (options.showsTokenizer) tokenizerInfoRoute(app, context);
    invocationsRoute(app, context);
    if (!options.hidesDocs) docsRoutes(app, document);
    poolingRoute(app, context, embeddings);
    poolingRoute(app, context, rerank);
    poolingRoute(app, context, score);
    statusRoutes(app, context);
    metricsRoute(app, context);
    if (options.hasPage) pageRoute(app, 'server');
    if (options.exchangesKv) kvTransferRoutes(app, context);
    if (options.updatesAdapters) adapterRoutes(app, context);
    if (options.hasDevRoutes) devRoutes(app, context);
    try {
      const { host, port } = options;
      const announce = (address: string): string => `starting on ${address}: 503 until the model is there`;
      await listen(app, { host, port, announce });
    } catch (error) {
      await app.close();
      throw error;
    }
    return new Server(app, context, options);
  }

  /** From now on requests are answered by `engine`, which stays the caller's to close. */
  serve(engine: InferenceEngine): void {
    const { logger, statsIntervalMs = 0 } = this.#options;
    this.#context.setEngine(engine);
    if (logger !== undefined && statsIntervalMs > 0)
      this.#stopStats = logStats(engine, logger, statsIntervalMs);
  }

  get port(): number {
    return portOf(this.#app);
  }

  /** `http://127.0.0.1:8000` */
  get url(): string {
    return urlOf(this.#app, this.#options.host);
  }

  /** Generation requests that are being answered. */
  get numInFlight(): number {
    return this.#context.inFlight.size;
  }

  /**
   * Takes no more connections, gives requests in flight `deadlineMs` to finish, aborts the rest with an error that says
   * why, and closes.
   * @returns how many requests had to be aborted.
   */
  async drain(deadlineMs: number): Promise<number> {
    const end = performance.now() + deadlineMs;
    const { inFlight } = this.#context;
    this.#app.server.close();
    const stopped = new ShuttingDownError('The server is shutting down and could not finish this request');
    const numAborted = await inFlight.drain(deadlineMs, stopped);
    // Other instances may still fetch the KV blocks that are kept for them.
    await this.#context.livingEngine?.transfers?.delivered(Math.max(0, end - performance.now()));
    await this.close();
    return numAborted;
  }

  /** Closes at once: requests in flight lose their connection. */
  async close(): Promise<void> {
    this.#stopStats();
    this.#context.inFlight.startDraining();
    this.#app.server.closeAllConnections();
    await this.#app.close();
  }
}

/** A server with an engine that is already there. */
export async function startServer(
  options: ServerOptions & { readonly engine: InferenceEngine },
): Promise<Server> {
  const server = await Server.listen(options);
  server.serve(options.engine);
  return server;
}
