// What the routes of the proxy share. proxy-server.ts makes it.

import type { FastifyRequest } from 'fastify';
import type { PolicyName } from '../config/proxy-options.ts';
import { ShuttingDownError } from '../errors.ts';
import type { Calls } from './calls.ts';
import type { Deadlines } from './deadlines.ts';
import type { Forwarder } from './forwarder.ts';
import type { Instances } from './instances.ts';
import type { ProxyMetrics } from './metrics.ts';
import type { RecentTransfers } from './recent-transfers.ts';
import type { Router } from './router.ts';

export interface ContextParts {
  readonly forwarder: Forwarder;
  readonly router: Router;
  readonly instances: Instances;
  readonly calls: Calls;
  readonly metrics: ProxyMetrics;
  readonly recent: RecentTransfers;
  readonly deadlines: Deadlines;
  readonly policy: PolicyName;
  readonly version: string;
  /** 0 is no limit. */
  readonly requestTimeoutMs: number;
  /** What instances are shown in place of the client's key; undefined: the client's key. */
  readonly instanceKey: string | undefined;
}

export class ProxyContext {
  readonly forwarder: Forwarder;
  readonly router: Router;
  readonly instances: Instances;
  readonly calls: Calls;
  readonly metrics: ProxyMetrics;
  readonly recent: RecentTransfers;
  readonly deadlines: Deadlines;
  readonly policy: PolicyName;
  readonly version: string;
  readonly requestTimeoutMs: number;
  readonly #instanceKey: string | undefined;
  #isServing = true;

  constructor(parts: ContextParts) {
    this.forwarder = parts.forwarder;
    this.router = parts.router;
    this.instances = parts.instances;
    this.calls = parts.calls;
    this.metrics = parts.metrics;
    this.recent = parts.recent;
    this.deadlines = parts.deadlines;
    this.policy = parts.policy;
    this.version = parts.version;
    this.requestTimeoutMs = parts.requestTimeoutMs;
    this.#instanceKey = parts.instanceKey;
  }

  get isServing(): boolean {
    return this.#isServing;
  }

  startDraining(): void {
    this.#isServing = false;
  }

  /** @throws ShuttingDownError while requests drain. */
  checkServing(): void {
    if (!this.#isServing) throw new ShuttingDownError('The proxy is shutting down and takes no new requests');
  }

  authorizationOf({ headers }: FastifyRequest): string | undefined {
    return this.#instanceKey === undefined ? headers.authorization : `Bearer ${this.#instanceKey}`;
  }
}
