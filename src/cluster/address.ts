// Addresses of instances as text: `10.0.1.2:21001` or `[fd00::2]:21001`.

import { isIPv4, isIPv6 } from 'node:net';
import { urlHost } from '../util/url-host.ts';

interface IpAddress {
  readonly ip: string;
  readonly port: number;
}

/** `ip:port`, an IPv6 address in brackets. */
export function formatAddress({ ip, port }: IpAddress): string {
  return `${urlHost(ip)}:${port}`;
}

/** An IP address and a port from 1 to 65535; null for everything else, host names included. */
export function parseAddress(text: string): IpAddress | null {
  const [, v6, v4, digits] =
    /^(?:\[([0-9a-fA-F:.]{2,45})\]|([0-9.]{7,15})):([1-9][0-9]{0,4})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65535) return null;
  if (v6 !== undefined) return isIPv6(v6) ? { ip: v6, port } : null;
  return v4 !== undefined && isIPv4(v4) ? { ip: v4, port } : null;
}
