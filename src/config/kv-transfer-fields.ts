// The fields of --kv-transfer-config as the protocol names them: which there are, what each may be, and which values
// this version does not serve. kv-transfer-config.ts reads them.

import { isIP } from 'node:net';
import * as z from 'zod';
import { ConfigError, NotAvailableError } from '../errors.ts';
import { zodMessage } from '../util/zod-message.ts';
import { expecting, number } from './option-kinds.ts';
import { didYouMean } from './suggest.ts';

const TRANSPORTS = ['auto', 'shm', 'tcp', 'cuda-ipc', 'nccl'] as const;
export type TransportChoice = (typeof TRANSPORTS)[number];

const OPTION = 'kv-transfer-config';
const EXTRA = 'kv_connector_extra_config';
const CONNECTOR = 'P2pNcclConnector';
const ROLES = ['kv_producer', 'kv_consumer', 'kv_both'] as const;
const SEND_TYPES = ['PUT', 'GET', 'PUT_ASYNC'] as const;

/** Connectors of the protocol that are not here. */
const OTHER_CONNECTORS: readonly string[] = [
  'NixlConnector',
  'MooncakeConnector',
  'LMCacheConnectorV1',
  'LMCacheMPConnector',
  'MultiConnector',
  'OffloadingConnector',
  'ExampleConnector',
  'SharedStorageConnector',
  'MoRIIOConnector',
  'HF3FSKVConnector',
  'FlexKVConnectorV1',
  'DecodeBenchConnector',
];

/** Null where not given, or given as null. */
function field<T>(schema: z.ZodType<T>, expected: string): z.ZodType<T | null> {
  return expecting<T | null>(schema, expected, null);
}

const port = number.pipe(z.int().min(1).max(65535));
const aPort = 'a port from 1 to 65535';
const ip = z.string().refine((text) => isIP(text) !== 0);
const host = z.string().regex(/^[A-Za-z0-9.:-]{1,253}$/);
const truth = z.union([z.boolean(), z.stringbool()]);
const text = z.string().min(1).max(256);

/** As the existing configurations have it, an empty text is nothing. */
function orEmpty<T>(schema: z.ZodType<T | null>): z.ZodType<T | null> {
  return z.preprocess((raw) => (raw === '' ? null : raw), schema);
}

const FIELDS = {
  kv_connector: field(text, `${CONNECTOR}`),
  kv_role: field(z.enum(ROLES), `one of ${ROLES.join(', ')}`),
  engine_id: field(text, 'a text of at most 256 characters'),
  // "cuda" is what configurations say that say nothing: the memory of the device, which is host memory here.
  kv_buffer_device: field(z.enum(['cuda', 'cpu']), 'cuda or cpu, which both are host memory here'),
  kv_buffer_size: field(number.pipe(z.number().min(0).max(Number.MAX_SAFE_INTEGER)), 'bytes, such as 2e9'),
  kv_rank: field(number.pipe(z.int().min(0)), 'a whole number, or better nothing: it has no effect'),
  kv_parallel_size: field(number.pipe(z.int().min(1)), 'a whole number, or better nothing: it has no effect'),
  kv_ip: field(ip, 'an IP address of this machine, such as 127.0.0.1'),
  kv_port: field(port, aPort),
  kv_connector_extra_config: field(z.record(z.string(), z.unknown()), 'an object'),
  kv_connector_module_path: field(text, 'nothing'),
  enable_permute_local_kv: field(truth, 'false'),
  kv_load_failure_policy: field(z.enum(['recompute', 'fail']), 'recompute'),
};

const EXTRA_FIELDS = {
  proxy_ip: orEmpty(field(host, 'the address of the proxy')),
  proxy_port: orEmpty(field(port, `the discovery port of the proxy, ${aPort}`)),
  http_port: field(port, `the same as --port, ${aPort}`),
  send_type: field(z.enum(SEND_TYPES), `one of ${SEND_TYPES.join(', ')}`),
  mem_pool_size_gb: field(
    number.pipe(
      z
        .number()
        .min(0)
        .max(2 ** 20),
    ),
    'GiB, such as 32, or 0 for no pool',
  ),
  transport: field(z.enum(TRANSPORTS), `one of ${TRANSPORTS.join(', ')}`),
  nccl_num_channels: field(number.pipe(z.int().min(1).max(64)), 'a whole number from 1 to 64, such as 8'),
};

const Fields = z.object(FIELDS);
const ExtraFields = z.object(EXTRA_FIELDS);

/** Checked fields; null is not given. */
export interface KvTransferFields
  extends Omit<z.output<typeof Fields>, 'kv_role' | 'kv_connector' | 'kv_connector_extra_config'> {
  readonly kv_role: (typeof ROLES)[number];
  readonly extra: z.output<typeof ExtraFields>;
}

/**
 * Checks each field by itself; null where the configuration asks for nothing.
 * @throws ConfigError and NotAvailableError as parseKvTransferConfig.
 */
export function readKvTransferFields(json: Readonly<Record<string, unknown>>): KvTransferFields | null {
  const { kv_connector, kv_role, kv_connector_extra_config, ...rest } = parse(Fields, json, '');
  const extra = parse(ExtraFields, kv_connector_extra_config ?? {}, `${EXTRA}.`);
  if (kv_connector === null) {
    const given = Object.entries(json).find(([, value]) => value !== null && value !== undefined);
    if (given === undefined) return null;
    throw configFault(given[0], `needs a connector: add "kv_connector": "${CONNECTOR}"`);
  }
  checkConnector(kv_connector);
  if (kv_role === null) {
    throw configFault('kv_role', `is missing beside kv_connector: add one of ${ROLES.join(', ')}`);
  }
  checkAvailable(rest);
  return { ...rest, kv_role, extra };
}

export function configFault(name: string, fault: string): ConfigError {
  return new ConfigError(`--${OPTION}: ${name}: ${fault}`, { param: OPTION });
}

function parse<S extends z.ZodObject>(
  schema: S,
  value: Readonly<Record<string, unknown>>,
  at: string,
): z.output<S> {
  const known = Object.keys(schema.shape);
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw configFault(
      `${at}${unknown}`,
      `unknown field${didYouMean(unknown, known) || misplaced(unknown, at)}`,
    );
  }
  const parsed = schema.safeParse(Object.fromEntries(known.map((name) => [name, value[name]])));
  if (parsed.success) return parsed.data;
  throw new ConfigError(`--${OPTION}: ${at}${zodMessage(parsed.error, value, '')}`, { param: OPTION });
}

/** A field of the other level is a common slip. */
function misplaced(name: string, at: string): string {
  if (at === '' && name in EXTRA_FIELDS) return `; it belongs into ${EXTRA}`;
  return at !== '' && name in FIELDS ? `; it belongs beside ${EXTRA}` : '';
}

function checkConnector(name: string): void {
  if (name === CONNECTOR) return;
  if (OTHER_CONNECTORS.includes(name)) throw notAvailable('kv_connector', name, `use ${CONNECTOR}`);
  throw configFault(
    'kv_connector',
    `unknown connector ${name}${didYouMean(name, [CONNECTOR, ...OTHER_CONNECTORS])}; use ${CONNECTOR}`,
  );
}

function checkAvailable(
  rest: Pick<
    z.output<typeof Fields>,
    'kv_connector_module_path' | 'enable_permute_local_kv' | 'kv_load_failure_policy'
  >,
): void {
  if (rest.kv_connector_module_path !== null) {
    throw notAvailable('kv_connector_module_path', rest.kv_connector_module_path, 'leave it out');
  }
  if (rest.enable_permute_local_kv === true)
    throw notAvailable('enable_permute_local_kv', 'true', 'leave it out');
  if (rest.kv_load_failure_policy === 'fail') {
    throw notAvailable('kv_load_failure_policy', 'fail', 'use recompute, which loses no request');
  }
}

function notAvailable(name: string, value: string, instead: string): NotAvailableError {
  return new NotAvailableError(
    `--${OPTION}: ${name} ${value} is not available yet in this version of svc: ${instead}`,
    { param: OPTION },
  );
}
