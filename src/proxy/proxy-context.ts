// What the routes of the proxy share, and which requests they may take.

import type { FastifyRequest } from 'fastify';
import type { PolicyName } from '../config/proxy-options.ts';
import { OverloadedError, ShuttingDownError } from '../errors.ts';
import type { ApiKeys } from '../http/auth.ts';
import type { InFlightRequests } from '../http/in-flight.ts';
import type { BodyReader } from './body-reader.ts';
import type { ProxyDeadlines } from './deadlines.ts';
import type { Forwarder } from './forwarder.ts';
import type { InstancePicker } from './instance-picker.ts';
import type { Instances } from './instances.ts';
import type { ProxyMetrics } from './metrics.ts';
import type { RecentTransfers } from './recent-transfers.ts';

export interface ProxyContext {
  readonly bodies: BodyReader;
  readonly forwarder: Forwarder;
  readonly picker: InstancePicker;
  readonly instances: Instances;
  readonly inFlight: InFlightRequests;
  readonly maxInFlight: number;
  readonly metrics: ProxyMetrics;
  readonly recent: RecentTransfers;
  readonly deadlines: ProxyDeadlines;
  readonly policy: PolicyName;
  readonly version: string;
  /** 0 is no limit. */
  readonly requestTimeoutMs: number;
  readonly apiKeys: ApiKeys;
  /** Shown to instances in place of the client's key; undefined shows the client's key. */
  readonly instanceKey: string | undefined;
}

const RETRY_AFTER_SECONDS = 1;

/** @throws ShuttingDownError while the proxy drains. */
export function checkOpen({ inFlight }: ProxyContext): void {
  if (inFlight.isDraining) {
    throw new ShuttingDownError('The proxy is shutting down and takes no new requests');
  }
}

/** @throws ShuttingDownError, or OverloadedError where as many requests are under way as may be. */
export function checkRoom(context: ProxyContext): void {
  checkOpen(context);
  const { inFlight, maxInFlight } = context;
  if (inFlight.size < maxInFlight) return;
  throw new OverloadedError(
    `The proxy has ${maxInFlight} requests under way (--max-in-flight): come again later`,
    { retryAfter: RETRY_AFTER_SECONDS },
  );
}

/** The name under which instances count the requests of a client. */
export function callerOf({ apiKeys }: ProxyContext, { headers, ip }: FastifyRequest): string {
  return apiKeys.callerOf({ authorization: headers.authorization, address: ip, proxied: null });
}

/** What instances are shown for a client. */
export function authorizationFor(
  { instanceKey }: ProxyContext,
  { headers }: FastifyRequest,
): string | undefined {
  return instanceKey === undefined ? headers.authorization : `Bearer ${instanceKey}`;
}
