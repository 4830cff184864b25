// What --kv-transfer-config asks for, checked: the roles, addresses and sizes of an instance that exchanges KV blocks.

import { isIP } from 'node:net';
import { totalmem } from 'node:os';
import { constrainedMemory } from 'node:process';
import { ConfigError } from '../errors.ts';
import {
  configFault,
  type KvTransferFields,
  readKvTransferFields,
  type TransportChoice,
} from './kv-transfer-fields.ts';

type KvRole = 'kv_producer' | 'kv_consumer' | 'kv_both';
export type SendType = 'PUT' | 'GET' | 'PUT_ASYNC';
export type { TransportChoice };

export interface KvTransferConfig {
  readonly role: KvRole;
  /** Address that control channel and data listener bind to and that peers are told. */
  readonly ip: string;
  readonly port: number;
  /** Bytes of the receive buffer of D, and what P holds in GET. */
  readonly bufferBytes: number;
  /** Bytes of the overflow pool, a power of two or 0 for none; null where it may take what is left, see `MOST_POOL_BYTES`. */
  readonly poolBytes: number | null;
  readonly sendType: SendType;
  readonly transport: TransportChoice;
  /** Of each communicator of NCCL; 0 leaves them to NCCL, which reads NCCL_MAX_NCHANNELS. */
  readonly ncclChannels: number;
  /** Discovery listener of the proxy; null serves without one. */
  readonly proxy: { readonly ip: string; readonly port: number } | null;
  readonly httpPort: number | null;
  /** Shared by all instances and the proxy; null admits every peer that reaches the ports. */
  readonly secret: string | null;
}

interface KvTransferSurroundings {
  readonly port: number;
  readonly secret: string | null;
  readonly env?: NodeJS.ProcessEnv;
  /** Of this machine, in bytes. */
  readonly memoryBytes?: number;
}

const DEFAULT_IP = '127.0.0.1';
const ALL_INTERFACES = ['0.0.0.0', '::'];
const DEFAULT_PORT = 14579;
const DEFAULT_BUFFER_BYTES = 1e9;
const DEFAULT_NCCL_CHANNELS = 8;
const GIB = 2 ** 30;
/** Of a pool whose size nobody has said. */
export const MOST_POOL_BYTES = 32 * GIB;
/** The smallest size of the pool other than 0. */
const MIN_POOL_BYTES = 512;
const MIN_SECRET_LENGTH = 16;

/**
 * Reads the JSON of --kv-transfer-config; null where it asks for nothing.
 * @throws ConfigError naming the field, what is wrong with it and the fix.
 * @throws NotAvailableError for values of the protocol that this version does not support.
 */
export function parseKvTransferConfig(
  json: Readonly<Record<string, unknown>> | null,
  surroundings: KvTransferSurroundings,
): KvTransferConfig | null {
  if (json === null) return null;
  const fields = readKvTransferFields(json);
  if (fields === null) return null;
  const memoryBytes = surroundings.memoryBytes ?? Math.min(totalmem(), constrainedMemory() || Infinity);
  return {
    role: fields.kv_role,
    ip: ownIp(fields, surroundings.env ?? process.env),
    port: ownPort(fields, surroundings.port),
    bufferBytes: bufferBytes(fields, memoryBytes),
    poolBytes: poolBytes(fields.extra.mem_pool_size_gb, memoryBytes),
    sendType: fields.extra.send_type ?? 'PUT_ASYNC',
    transport: fields.extra.transport ?? 'auto',
    ncclChannels: ncclChannels(fields, surroundings.env ?? process.env),
    ...proxyAndPort(fields, surroundings.port),
    secret: checkKvTransferSecret(surroundings.secret),
  };
}

/**
 * The secret as it was given; the message does not repeat it.
 * @throws ConfigError when it is too short.
 */
export function checkKvTransferSecret(secret: string | null): string | null {
  if (secret !== null && secret.length < MIN_SECRET_LENGTH) {
    throw new ConfigError(
      `--kv-transfer-secret must have at least ${MIN_SECRET_LENGTH} characters, got ${secret.length}: use for example the output of openssl rand -hex 16`,
      { param: 'kv-transfer-secret' },
    );
  }
  return secret;
}

/** Loopback, unless the configuration or SVC_HOST_IP says otherwise. */
function ownIp({ kv_ip }: KvTransferFields, env: NodeJS.ProcessEnv): string {
  const fromEnv = env.SVC_HOST_IP || null;
  const ip = kv_ip ?? fromEnv ?? DEFAULT_IP;
  const name = kv_ip === null && fromEnv !== null ? 'SVC_HOST_IP' : 'kv_ip';
  if (isIP(ip) === 0) throw configFault(name, `${ip} is no IP address: give that of one interface`);
  if (ALL_INTERFACES.includes(ip)) {
    throw configFault(name, `${ip} is no address that peers can reach: give the address of one interface`);
  }
  return ip;
}

/**
 * The proxy sends requests to `kv_ip`.
 * @throws ConfigError where the server is to listen at another address alone.
 */
export function expectReachable({ proxy, ip }: KvTransferConfig, host: string | null): void {
  const address = host === 'localhost' ? DEFAULT_IP : host;
  const isOneAddress = address !== null && isIP(address) !== 0 && !ALL_INTERFACES.includes(address);
  if (proxy === null || !isOneAddress || address === ip) return;
  throw configFault(
    'kv_ip',
    `${ip} is where the proxy looks for this server, which listens at --host ${host} alone: give both one address, or ` +
      'leave --host out',
  );
}

function ncclChannels({ extra }: KvTransferFields, env: NodeJS.ProcessEnv): number {
  return extra.nccl_num_channels ?? (env.NCCL_MAX_NCHANNELS ? 0 : DEFAULT_NCCL_CHANNELS);
}

function ownPort({ kv_port }: KvTransferFields, httpPort: number): number {
  const port = kv_port ?? DEFAULT_PORT;
  if (port === httpPort) {
    throw configFault(
      'kv_port',
      `${port} is that of --port: instances talk to each other over a port of their own`,
    );
  }
  return port;
}

function bufferBytes({ kv_buffer_size, kv_role }: KvTransferFields, memoryBytes: number): number {
  const bytes = kv_buffer_size ?? DEFAULT_BUFFER_BYTES;
  if (kv_role !== 'kv_producer' && bytes > memoryBytes) {
    const most = Math.floor(memoryBytes);
    throw configFault(
      'kv_buffer_size',
      `${bytes} bytes are more than this machine has: give at most ${most}`,
    );
  }
  return Math.floor(bytes);
}

/** A given size is rounded up to a power of two. */
function poolBytes(gib: number | null, memoryBytes: number): number | null {
  if (gib === null || gib === 0) return gib;
  if (gib * GIB > memoryBytes) {
    const most = (memoryBytes / GIB).toFixed(1);
    throw configFault(
      'kv_connector_extra_config.mem_pool_size_gb',
      `${gib} GiB are more than this machine has: give at most ${most}, or 0 for no pool`,
    );
  }
  return Math.max(MIN_POOL_BYTES, 2 ** Math.ceil(Math.log2(gib * GIB)));
}

function proxyAndPort(
  { extra }: KvTransferFields,
  port: number,
): Pick<KvTransferConfig, 'proxy' | 'httpPort'> {
  const { proxy_ip, proxy_port, http_port } = extra;
  const at = 'kv_connector_extra_config';
  if (http_port !== null && http_port !== port) {
    throw configFault(`${at}.http_port`, `${http_port} differs from --port ${port}: give both the same port`);
  }
  if (proxy_ip === null && proxy_port === null) return { proxy: null, httpPort: http_port };
  if (proxy_port === null) {
    throw configFault(
      `${at}.proxy_port`,
      `is missing beside proxy_ip ${proxy_ip}: add "proxy_port": "30001"`,
    );
  }
  if (proxy_ip === null) {
    throw configFault(
      `${at}.proxy_ip`,
      `is missing beside proxy_port ${proxy_port}: add the address of the proxy`,
    );
  }
  if (http_port === null) {
    throw configFault(
      `${at}.http_port`,
      `is missing, and the proxy must be told: add "http_port": "${port || 20001}" and --port the same`,
    );
  }
  return { proxy: { ip: proxy_ip, port: proxy_port }, httpPort: http_port };
}
