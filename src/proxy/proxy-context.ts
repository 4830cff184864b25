// What the routes of the proxy share. proxy-server.ts makes it.

import type { FastifyRequest } from 'fastify';
import type { PolicyName } from '../config/proxy-options.ts';
import type { ApiKeys } from '../http/auth.ts';
import type { Calls } from './calls.ts';
import type { Deadlines } from './deadlines.ts';
import type { Forwarder } from './forwarder.ts';
import type { Instances } from './instances.ts';
import type { JobReader } from './job-reader.ts';
import type { ProxyMetrics } from './metrics.ts';
import type { RecentTransfers } from './recent-transfers.ts';
import type { Router } from './router.ts';

export interface ProxyContext {
  readonly jobs: JobReader;
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
  readonly apiKeys: ApiKeys;
  /** What instances are shown in place of the client's key; undefined: the client's key. */
  readonly instanceKey: string | undefined;
}

/** The name under which instances count the request of a client. */
export function callerOf({ apiKeys }: ProxyContext, { headers, ip }: FastifyRequest): string {
  return apiKeys.callerOf({ authorization: headers.authorization, address: ip, proxied: null });
}

/** What instances are shown for the request of a client. */
export function authorizationFor(
  { instanceKey }: ProxyContext,
  { headers }: FastifyRequest,
): string | undefined {
  return instanceKey === undefined ? headers.authorization : `Bearer ${instanceKey}`;
}
