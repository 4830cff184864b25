// The one table of the options of svc proxy, and the configuration that is made of them.

import { isIP } from 'node:net';
import { ConfigError } from '../errors.ts';
import { type CorsConfig, corsConfig, corsOptions } from './cors-options.ts';
import { checkKvTransferSecret } from './kv-transfer-config.ts';
import { checkedOptions, type OptionSource } from './merge.ts';
import { choice, flag, integer, keys, seconds, size, text } from './option-kinds.ts';
import { group, OptionTable, option, optional, type ValuesOf } from './option-table.ts';

export const POLICIES = ['round_robin', 'random', 'least_loaded', 'prefix_aware'] as const;
export type PolicyName = (typeof POLICIES)[number];

const DEFAULT_PORT = 10_001;
const DEFAULT_DISCOVERY_PORT = 30_001;
const LOOPBACK = '127.0.0.1';
const ANY_ADDRESS: readonly string[] = ['0.0.0.0', '::'];

export const PROXY_OPTIONS = new OptionTable({
  ...group('General', {
    config: optional(text('<file>'), {
      help: 'YAML file with options: their names without dashes; flags and environment win over it',
      defaultText: 'none',
    }),
    logLevel: option(choice(['debug', 'info', 'warn', 'error', 'silent'], { warning: 'warn' }), 'info', {
      help: 'least level of what is logged; debug has a line a request',
      env: 'SVC_LOGGING_LEVEL',
    }),
  }),
  ...group('Clients', {
    host: option(text('<address>'), LOOPBACK, { help: 'address on which clients are answered' }),
    port: option(integer(0, 65535), DEFAULT_PORT, {
      help: 'port on which clients are answered; 0 takes a free one',
    }),
    apiKey: option<readonly string[]>(keys('<key...>'), [], {
      help: 'keys that clients may use: several values, or the option several times',
      defaultText: 'none: everybody may use the proxy',
      env: 'SVC_API_KEY',
      isSecret: true,
    }),
    ...corsOptions(),
    otlpTracesEndpoint: optional(text('<url>'), {
      help: 'collector of OpenTelemetry that gets a trace of every request, over OTLP/HTTP: http://localhost:4318',
      defaultText: 'none',
      env: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    }),
    ui: option(flag(), true, { help: 'a page at / with a playground and a dashboard; --no-ui has none' }),
    requestTimeout: option(seconds(), 0, {
      help: 'how long a request may take before it is ended with an error (504); 0 is no limit',
    }),
    shutdownTimeout: option(seconds(), 30, {
      help: 'how long running requests may take to finish after SIGTERM or SIGINT',
    }),
    maxInFlight: option(size(1), 8192, {
      help: 'requests that may be under way at the same time; clients beyond are told to come again (429)',
    }),
  }),
  ...group('Instances', {
    discoveryHost: option(text('<address>'), LOOPBACK, {
      help: 'address on which instances register; an IP address',
    }),
    discoveryPort: option(integer(0, 65535), DEFAULT_DISCOVERY_PORT, {
      help: 'port on which instances register; 0 takes a free one',
    }),
    kvTransferSecret: optional(text('<secret>'), {
      help: 'shared by all instances and the proxy, at least 16 characters: without it nobody can register',
      defaultText: 'none: everybody who reaches the port can register',
      env: 'SVC_KV_TRANSFER_SECRET',
      isSecret: true,
    }),
    policy: option(choice(POLICIES), 'round_robin', {
      help: 'which instances take a request: in turn, by chance, those with the least load, or those that know the beginning of the prompt',
    }),
    prefillThreshold: option(size(0), 64, {
      help: 'prompts of fewer tokens (4 bytes are taken for one) go straight to a decode instance',
    }),
  }),
});

/** What `svc proxy` starts from: the checked value of every option; durations are in seconds. */
export type ProxyConfig = ValuesOf<typeof PROXY_OPTIONS> & { readonly cors: CorsConfig };

/**
 * Checks and merges `sources`; a later one wins over an earlier one.
 * @throws ConfigError naming the option as it was written, what was expected and what was given.
 */
export function proxyConfig(...sources: readonly OptionSource<string>[]): ProxyConfig {
  const given = new Map(sources.flatMap((source) => [...source]));
  const values = checkedOptions(PROXY_OPTIONS, given);
  if (isIP(values.discoveryHost) === 0) {
    throw new ConfigError(
      `--discovery-host: expected an IP address such as 127.0.0.1 or 0.0.0.0, got ${values.discoveryHost}`,
      { param: 'discovery-host' },
    );
  }
  expectTwoPorts(values);
  checkKvTransferSecret(values.kvTransferSecret);
  return { ...values, cors: corsConfig(values) };
}

/** On addresses of which neither includes the other, both may have the same number. */
function expectTwoPorts({ host, port, discoveryHost, discoveryPort }: ValuesOf<typeof PROXY_OPTIONS>): void {
  if (port !== discoveryPort || port === 0) return;
  const hosts = [host, discoveryHost];
  const areApart =
    host !== discoveryHost && hosts.every((one) => isIP(one) !== 0 && !ANY_ADDRESS.includes(one));
  if (areApart) return;
  throw new ConfigError(
    `--port and --discovery-port are both ${port}: clients and instances need a port each, so give one of them another`,
    { param: 'discovery-port' },
  );
}
