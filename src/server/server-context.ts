// State that all routes share: the phase of the server, its engine once the model is loaded, the names of the model.

import type { FastifyRequest } from 'fastify';
import type { AnswerConfig } from '../config/serve-config.ts';
import type { InferenceEngine, ServedAdapter } from '../engine/inference-engine.ts';
import { EngineDeadError, NotFoundError, NotReadyError, ShuttingDownError } from '../errors.ts';
import type { HttpAppOptions } from '../http/app.ts';
import { ApiKeys, authorizationOf } from '../http/auth.ts';
import { HttpMetrics } from '../http/http-metrics.ts';
import { InFlightRequests } from '../http/in-flight.ts';
import type { Tracing } from '../observability/tracing.ts';
import { shortened } from '../util/preview.ts';
import { proxiedCaller } from './proxied-request.ts';
import { ResponseStore, type StoreLimits } from './responses/response-store.ts';
import { serverMetrics } from './server-metrics.ts';

const RETRY_AFTER_SECONDS = 2;
/** Names of unknown fields that are remembered, so that each is logged once. */
const MAX_REPORTED = 1000;
/** Of them in one line of the log. */
const MAX_IN_LINE = 20;
/** Characters of a model's name that an error repeats: those of real models are shorter. */
const MAX_MODEL_NAME = 200;

/** What is left out of answers is as the command's options have it by default; of the names, that of the engine's model. */
export interface ServerOptions extends HttpAppOptions, Partial<AnswerConfig> {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly version: string;
  /** One line a generation request with its parameters. */
  readonly logRequests?: boolean | undefined;
  /** Characters and token ids of each prompt in that line; null, the default, is none. */
  readonly maxLoggedLength?: number | null | undefined;
  /** A request that takes longer ends with an error; 0 is no limit. */
  readonly requestTimeoutMs?: number | undefined;
  /** The secret of a proxy that may say for which client it passes a request on. */
  readonly proxyToken?: string | undefined;
  /** Adds the route by which a proxy cancels transfers. */
  readonly exchangesKv?: boolean | undefined;
  /** How often the log gets a line of statistics while there is work; 0, the default, is never. */
  readonly statsIntervalMs?: number | undefined;
  /** Tokens of each event of a stream where a request does not say it. */
  readonly streamInterval?: number | undefined;
  /** Every stream tells its usage, in each chunk and at the end. */
  readonly alwaysTellsUsage?: boolean | undefined;
  /** Adds GET /tokenizer_info. */
  readonly showsTokenizer?: boolean | undefined;
  /** Leaves out GET /openapi.json and GET /docs. */
  readonly hidesDocs?: boolean | undefined;
  /** How much of past responses is kept for those who come back to them. */
  readonly responseStore?: Partial<StoreLimits> | undefined;
  /** Serves the page at `/`. */
  readonly hasPage?: boolean | undefined;
  /** Gets a span of each request; its owner's to stop. */
  readonly tracing?: Tracing | undefined;
  readonly hasDevRoutes?: boolean | undefined;
  /** Adds the routes that load and unload adapters. */
  readonly updatesAdapters?: boolean | undefined;
}

interface Served {
  readonly engine: InferenceEngine;
  readonly readMetrics: () => Promise<string>;
}

export class ServerContext {
  readonly options: ServerOptions;
  readonly #apiKeys: ApiKeys;
  readonly inFlight = new InFlightRequests();
  readonly httpMetrics = new HttpMetrics();
  readonly responses: ResponseStore;
  /** Unix seconds. */
  readonly startedAt = Math.floor(Date.now() / 1000);
  #served: Served | null = null;
  readonly #reported = new Set<string>();

  constructor(options: ServerOptions) {
    this.options = options;
    this.#apiKeys = new ApiKeys(options.apiKeys ?? []);
    this.responses = new ResponseStore(options.responseStore);
  }

  setEngine(engine: InferenceEngine): void {
    this.#served = { engine, readMetrics: serverMetrics(engine, this.modelNames(engine)[0]) };
  }

  /**
   * The engine that answers requests now.
   * @throws NotReadyError while it loads, ShuttingDownError while the server drains, EngineDeadError afterwards.
   */
  get engine(): InferenceEngine {
    if (this.inFlight.isDraining)
      throw new ShuttingDownError('The server is shutting down: send the request elsewhere');
    return this.#living.engine;
  }

  /** The engine as long as it lives, also while the server drains; null before it is there. */
  get livingEngine(): InferenceEngine | null {
    return this.#served?.engine.isAlive ? this.#served.engine : null;
  }

  /**
   * The text of GET /metrics, also while the server drains.
   * @throws NotReadyError while the model loads, EngineDeadError afterwards.
   */
  async readMetrics(): Promise<string> {
    const texts = [this.#living.readMetrics(), this.httpMetrics.registry.metrics()];
    return (await Promise.all(texts)).join('\n');
  }

  get #living(): Served {
    if (this.#served === null) {
      throw new NotReadyError('The model is still being loaded: try again soon', {
        retryAfter: RETRY_AFTER_SECONDS,
      });
    }
    if (!this.#served.engine.isAlive) throw new EngineDeadError('the engine has stopped');
    return this.#served;
  }

  /** The name under which the engine counts a request. */
  callerOf(request: FastifyRequest): string {
    const { headers, ip } = request;
    const proxied = proxiedCaller(request, this.options.proxyToken);
    return this.#apiKeys.callerOf({ authorization: authorizationOf(headers), address: ip, proxied });
  }

  /** Who may come back to a response: whoever shows the same key, or everybody on a server without keys. */
  ownerOf(request: FastifyRequest): string {
    const caller = this.callerOf(request);
    return caller.startsWith('key:') ? caller : '';
  }

  /** The names that requests may give, the one that answers carry first. */
  modelNames(engine: InferenceEngine): readonly [string, ...string[]] {
    return this.options.servedModelNames ?? [engine.info.model];
  }

  /**
   * The adapter of that name; null for the model itself, which is also meant where the name is left out.
   * @throws NotFoundError where the server has neither.
   */
  adapterOf(name: string | null | undefined, engine: InferenceEngine): ServedAdapter | null {
    if (name === null || name === undefined || this.modelNames(engine).includes(name)) return null;
    const adapter = engine.adapters.find(name);
    if (adapter !== null) return adapter;
    const known = [...this.modelNames(engine), ...engine.adapters.all.map((one) => one.name)];
    throw new NotFoundError(
      `The model \`${shortened(name, MAX_MODEL_NAME)}\` does not exist; this server has ${known.join(', ')}`,
      { param: 'model' },
    );
  }

  /** Fields that no version of the protocol has are accepted; each name is logged once. */
  reportUnknownFields(names: readonly string[]): void {
    const room = Math.min(MAX_IN_LINE, MAX_REPORTED - this.#reported.size);
    const shown = new Set(names.map((name) => shortened(name)));
    const unseen = [...shown].filter((name) => !this.#reported.has(name)).slice(0, room);
    if (unseen.length === 0) return;
    for (const name of unseen) this.#reported.add(name);
    this.options.logger?.warn({ fields: unseen }, 'requests hold unknown fields, which are ignored');
  }
}
