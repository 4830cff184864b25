// What the routes of the proxy share, and which requests they may take.

import type { FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { ProxyConfig } from '../config/proxy-options.ts';
import { OverloadedError, ShuttingDownError } from '../errors.ts';
import { ApiKeys, authorizationOf } from '../http/auth.ts';
import { HttpMetrics } from '../http/http-metrics.ts';
import { InFlightRequests } from '../http/in-flight.ts';
import type { Tracing } from '../observability/tracing.ts';
import { BodyReader } from './body-reader.ts';
import { CancelNotifier } from './cancel-notifier.ts';
import { PROXY_DEADLINES, type ProxyDeadlines } from './deadlines.ts';
import { Forwarder } from './forwarder.ts';
import type { Instance } from './instance.ts';
import { InstanceKey } from './instance-key.ts';
import { InstancePicker } from './instance-picker.ts';
import { Instances } from './instances.ts';
import { ProxyMetrics } from './metrics.ts';
import { RecentTransfers } from './recent-transfers.ts';

const RETRY_AFTER_SECONDS = 1;

export interface ProxyServerOptions {
  readonly logger?: Logger | undefined;
  /** The key that instances want, where clients show the proxy one of its own. */
  readonly instanceKey?: string | undefined;
  readonly version?: string | undefined;
  readonly deadlines?: ProxyDeadlines | undefined;
  /** Gets a span of each request; its owner's to stop. */
  readonly tracing?: Tracing | undefined;
}

export class ProxyContext {
  readonly config: ProxyConfig;
  readonly version: string;
  readonly deadlines: ProxyDeadlines;
  readonly bodies = new BodyReader();
  readonly inFlight = new InFlightRequests();
  readonly httpMetrics = new HttpMetrics();
  readonly recent = new RecentTransfers();
  readonly instances: Instances;
  readonly metrics: ProxyMetrics;
  readonly picker: InstancePicker;
  readonly forwarder: Forwarder;
  readonly tracing: Tracing | null;
  readonly instanceKey: InstanceKey;
  readonly #apiKeys: ApiKeys;

  constructor(config: ProxyConfig, options: ProxyServerOptions) {
    const { logger, instanceKey: key, version, deadlines } = options;
    this.tracing = options.tracing ?? null;
    this.config = config;
    this.version = version ?? '';
    this.deadlines = deadlines ?? PROXY_DEADLINES;
    this.instances = new Instances(this.deadlines, {
      changed: (instance, state) => {
        const { type, httpAddress, model, isMissed } = instance;
        logger?.[isMissed ? 'warn' : 'info'](
          { type, address: httpAddress, ...(model !== null && { model }) },
          `instance is ${state}${isMissed ? ', and has not said goodbye' : ''}`,
        );
        if (state === 'ready') this.#warnOfNames(instance, logger);
      },
      failed: ({ httpAddress: instance }, why, isNews) => {
        this.metrics.failures.inc({ instance });
        // Whoever is gone fails all of its requests at once.
        if (isNews) logger?.warn({ address: instance, why }, 'a request to an instance has failed');
      },
      forgotten: (instance) => this.metrics.forget(instance),
    });
    this.metrics = new ProxyMetrics(
      () => this.inFlight.size,
      () => this.instances.all,
    );
    this.picker = new InstancePicker(this.instances, config.policy, config.prefillThreshold);
    const { picker, metrics, recent } = this;
    const cancels = new CancelNotifier(metrics, this.deadlines.cancel);
    const instanceKey = new InstanceKey({ checksClients: config.apiKey.length > 0, key, logger });
    this.instanceKey = instanceKey;
    this.forwarder = new Forwarder({
      ...{ picker, metrics, cancels, recent, instanceKey, logger },
      deadlines: this.deadlines,
    });
    this.#apiKeys = new ApiKeys(config.apiKey);
  }

  /** Nothing else would tell: requests are answered all the same, each by a decode instance alone. */
  #warnOfNames(instance: Instance, logger: Logger | undefined): void {
    const others = this.instances.ready(({ type }) => type !== instance.type);
    if (others.length === 0 || others.some((other) => other.sharesModel(instance))) return;
    logger?.warn(
      {
        address: instance.httpAddress,
        model: instance.model,
        others: [...new Set(others.map(({ model }) => model))],
      },
      `no ${instance.type === 'P' ? 'D' : 'P'} instance has a model of this name, so that no prompt is computed for another ` +
        'instance: give all the same --served-model-name',
    );
  }

  /** @throws ShuttingDownError while the proxy drains. */
  checkOpen(): void {
    if (this.inFlight.isDraining) {
      throw new ShuttingDownError('The proxy is shutting down and takes no new requests');
    }
  }

  /** @throws ShuttingDownError, or OverloadedError where as many requests are under way as may be. */
  checkRoom(): void {
    this.checkOpen();
    const { maxInFlight } = this.config;
    if (this.inFlight.size < maxInFlight) return;
    throw new OverloadedError(
      `The proxy has ${maxInFlight} requests under way (--max-in-flight): come again later`,
      { retryAfter: RETRY_AFTER_SECONDS },
    );
  }

  /** The name under which instances count the requests of a client. */
  callerOf({ headers, ip }: FastifyRequest): string {
    return this.#apiKeys.callerOf({ authorization: authorizationOf(headers), address: ip, proxied: null });
  }
}
