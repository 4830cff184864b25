// Traces for svc serve and svc proxy: the packages are loaded only where they are wanted.

import type { Tracing } from '../observability/tracing.ts';
import { version } from '../util/version.ts';

/**
 * Undefined where there is no endpoint.
 * @throws ConfigError where there is no way to send traces there.
 */
export async function startTracing(
  endpoint: string | null,
  serviceName: string,
): Promise<Tracing | undefined> {
  if (endpoint === null) return undefined;
  const { Tracing: Started } = await import('../observability/tracing.ts');
  return Started.start({ endpoint, serviceName, version: version() });
}
