// Binds an application to its address and tells where that is; an address that cannot be had is explained in words that
// name the option to change.

import type { FastifyInstance } from 'fastify';
import { ConfigError } from '../errors.ts';
import { urlHost } from '../util/url-host.ts';

interface ListenOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** What is logged when the port is bound; empty logs nothing. */
  readonly announce?: (address: string) => string;
}

/** @throws ConfigError where the address cannot be had. */
export async function listen(app: FastifyInstance, options: ListenOptions): Promise<void> {
  const { host, port, announce = () => '' } = options;
  try {
    await app.listen({ host, port, listenTextResolver: announce });
  } catch (cause) {
    throw bindError(cause, options);
  }
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

function bindError(cause: unknown, { host, port }: ListenOptions): ConfigError {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `port ${port} is already in use on ${host}: stop the other program or choose another --port`,
    EACCES: `port ${port} on ${host} needs more rights: choose a --port above 1023`,
    EADDRNOTAVAIL: `this machine has no address ${host}: choose another --host`,
    ENOTFOUND: `the host name ${host} is not known: choose another --host`,
  };
  const reason = reasons[String(code)] ?? `${host}:${port} cannot be bound: ${String(cause)}`;
  return new ConfigError(reason, {
    param: code === 'EADDRINUSE' || code === 'EACCES' ? 'port' : 'host',
    cause,
  });
}
