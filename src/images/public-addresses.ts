// Keeps what is fetched for clients out of the server's own networks: connections are made to addresses of the public web only,
// whatever a name leads to.

import { type LookupAddress, lookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector } from 'undici';

/** A connection that was not made, because its address is none of the public web. */
export class PrivateAddressError extends Error {}

/** IPv4: this host, private networks, those of providers, link-local, tests and documentation, multicast, and what is reserved. */
const NOT_PUBLIC = blockList('ipv4', [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
]);
/** IPv6 has one range for the public web, which leaves out loopback, link-local, multicast and whatever stands for IPv4. */
const GLOBAL_V6 = blockList('ipv6', [['2000::', 3]]);
/** In it: tunnels, which may lead to any IPv4 address, and documentation. */
const NOT_PUBLIC_V6 = blockList('ipv6', [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
]);

function blockList(family: 'ipv4' | 'ipv6', subnets: readonly (readonly [string, number])[]): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of subnets) list.addSubnet(network, prefix, family);
  return list;
}

/** @param address IPv4 or IPv6, without brackets. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !NOT_PUBLIC.check(address, 'ipv4');
  // One with a zone is no address of another network, and no list knows it.
  if (isIP(address) !== 6 || address.includes('%')) return false;
  return GLOBAL_V6.check(address, 'ipv6') && !NOT_PUBLIC_V6.check(address, 'ipv6');
}

/** Connections to the public web; the others fail with a PrivateAddressError. Each is for one request. */
export function publicAgent(): Agent {
  const connect = buildConnector({ lookup: lookupPublic });
  return new Agent({
    pipelining: 0,
    connect: (options, callback) => {
      // What is an address already is not looked up.
      const host = options.hostname.replace(/^\[|\]$/g, '');
      if (isIP(host) === 0 || isPublicAddress(host)) connect(options, callback);
      else callback(new PrivateAddressError(host), null);
    },
  });
}

/** As that of Node; a name that leads to any other address is refused. */
const lookupPublic: LookupFunction = (host, options, callback) => {
  lookup(host, { ...options, all: true }, (error, found) => {
    const fault = error ?? refusalOf(host, found);
    if (fault !== null) callback(fault, []);
    else if (options.all) callback(null, found);
    else callback(null, found[0]!.address, found[0]!.family);
  });
};

/** Null where all addresses that were found for `host` are public: a connection may be made to any of them. */
export function refusalOf(host: string, found: readonly LookupAddress[]): PrivateAddressError | null {
  return found.every(({ address }) => isPublicAddress(address)) ? null : new PrivateAddressError(host);
}
