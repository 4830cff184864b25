// Binds an application to its address and tells where that is; an address that cannot be had is explained in words that
// name the option to change.

import { once } from 'node:events';
import { createServer, isIPv6 } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { ConfigError, messageOf } from '../errors.ts';
import { urlHost } from '../util/url-host.ts';

/** Errors of a machine without IPv6. */
const NO_SUCH_ADDRESS: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT']);

interface Address {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
}

interface ListenOptions extends Address {
  /** What is logged when the port is bound, where the application logs at all. */
  readonly announce?: (address: string) => string;
}

/**
 * The name `localhost` is both loopback addresses of the machine.
 * @throws ConfigError where the address cannot be had.
 */
export async function listen(app: FastifyInstance, options: ListenOptions): Promise<void> {
  const { host, port, announce = (address) => `listening on ${address}` } = options;
  const isLocalhost = host === 'localhost';
  try {
    await app.listen({ host: isLocalhost ? '127.0.0.1' : host, port, listenTextResolver: announce });
    if (isLocalhost) await listenToo(app, { host: '::1', port: portOf(app) });
  } catch (cause) {
    throw bindError(cause, options);
  }
}

/**
 * Binds an address and leaves it at once, for whoever has much to do before it listens there.
 * @throws ConfigError where the address cannot be had.
 */
export async function expectFreeAddress(address: Address): Promise<void> {
  const probe = createServer();
  const host = address.host === 'localhost' ? '127.0.0.1' : address.host;
  try {
    await once(probe.listen({ host, port: address.port }), 'listening');
  } catch (cause) {
    throw bindError(cause, address);
  }
  await once(probe.close(), 'close');
}

/**
 * A second way in to the same server: its timeouts, its answers to broken requests and its shutdown hold for whoever comes
 * by it. Fastify would start a server of its own for this, without what `createHttpApp` does to the first one.
 */
async function listenToo({ server }: FastifyInstance, { host, port }: Address): Promise<void> {
  const entrance = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    if (server.listening) server.emit('connection', socket);
    else socket.destroy();
  });
  try {
    await once(entrance.listen({ host, port }), 'listening');
  } catch (error) {
    if (NO_SUCH_ADDRESS.has(codeOf(error))) return;
    throw error;
  }
  server.once('close', () => entrance.close());
}

/** 0 while nothing is bound. */
export function portOf({ server }: FastifyInstance): number {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** `http://127.0.0.1:8000` */
export function urlOf(app: FastifyInstance, host: string): string {
  return `${app.initialConfig.https ? 'https' : 'http'}://${urlHost(host)}:${portOf(app)}`;
}

function bindError(cause: unknown, { host, port }: Address): ConfigError {
  const code = codeOf(cause);
  const isPort = code === 'EADDRINUSE' || code === 'EACCES';
  const reason = isBracketed(host)
    ? `the host name ${host} is not known: write an IPv6 address without brackets, --host ${host.slice(1, -1)}`
    : (reasonOf(code, host, port) ??
      `${urlHost(host)}:${port} cannot be bound: choose another --host (${messageOf(cause)})`);
  return new ConfigError(reason, { param: isPort ? 'port' : 'host', cause });
}

function reasonOf(code: string, host: string, port: number): string | undefined {
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `port ${port} is already in use on ${host}: stop the other program or choose another --port`,
    EACCES: `port ${port} on ${host} needs more rights: choose a --port above 1023`,
    EADDRNOTAVAIL: `this machine has no address ${host}: choose another --host`,
    ENOTFOUND: `the host name ${host} is not known: choose another --host`,
  };
  // Of an address of one link it is not known which link is meant.
  if (code === 'EINVAL' && /^fe80:/i.test(host) && !host.includes('%')) {
    return `the address ${host} is that of a link: name its interface behind it, as in --host ${host}%eth0`;
  }
  return reasons[code];
}

/** As URLs write it. */
function isBracketed(host: string): boolean {
  return host.startsWith('[') && isIPv6(host.slice(1, -1));
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
