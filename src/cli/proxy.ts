// svc proxy: options -> discovery port -> port -> answers, and the way back when a signal comes.

import { readConfigFile } from '../config/config-file.ts';
import { environmentOptions, type OptionSource } from '../config/merge.ts';
import { mistypedVariables } from '../config/mistyped-environment.ts';
import { PROXY_OPTIONS, type ProxyConfig, proxyConfig } from '../config/proxy-options.ts';
import { createLogger } from '../observability/log.ts';
import { headerSecret } from '../util/header-secret.ts';
import { version } from '../util/version.ts';
import { exit } from './exit.ts';
import { startTracing } from './start-tracing.ts';
import { drainServer, StopRequest } from './stop-request.ts';

/** @throws ConfigError naming the option and the fix. */
export async function readProxyConfig(flags: OptionSource<string>): Promise<ProxyConfig> {
  const file = flags.get('config')?.value;
  const fromFile = typeof file === 'string' ? await readConfigFile(PROXY_OPTIONS, file) : new Map();
  return proxyConfig(fromFile, environmentOptions(PROXY_OPTIONS, process.env), flags);
}

/**
 * The key that the proxy shows to its instances; empty where they want none.
 * @throws ConfigError where no header can carry it.
 */
export function readInstanceKey(): string {
  return headerSecret('OPENAI_API_KEY', process.env.OPENAI_API_KEY ?? '');
}

/** Runs until a signal ends it; the process exits with it. */
export async function runProxy(config: ProxyConfig, instanceKey: string): Promise<void> {
  const logger = createLogger(config.logLevel);
  for (const notice of mistypedVariables(process.env)) logger.warn(notice);
  const stop = new StopRequest(logger);
  const tracing = await startTracing(config.otlpTracesEndpoint, 'svc-proxy');
  const { ProxyServer } = await import('../proxy/proxy-server.ts');
  const server = await ProxyServer.listen(config, {
    logger,
    version: version(),
    instanceKey,
    tracing,
  });
  logger.info(`clients: ${server.url}; instances: ${server.discoveryAddress}; policy: ${config.policy}`);
  await stop.requested;
  await drainServer(server, config.shutdownTimeout, logger);
  await tracing?.stop();
  await exit(0, logger);
}
