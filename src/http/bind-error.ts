// Why a server could not bind its address, in words that name the option to change.

import { ConfigError } from '../errors.ts';

export function bindError(
  cause: unknown,
  { host, port }: { readonly host: string; readonly port: number },
): ConfigError {
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
