// The request id that pairs two instances: it contains the addresses of both, so that each finds the other one by the
// X-Request-Id that it gets.

import { randomBytes } from 'node:crypto';
import { parseAddress } from './address.ts';

export interface PairedRequestId {
  /** The id as the proxy made it, without additions of servers such as `cmpl-`. */
  readonly id: string;
  /** Control addresses (`ip:port`) of the two instances. */
  readonly prefill: string;
  readonly decode: string;
}

/** Of the longest id: two IPv6 addresses with ports, the words between them, and additions of servers. */
const MAX_LENGTH = 512;
const ADDRESS = String.raw`(\[[0-9a-fA-F:.]{2,45}\]:[0-9]{1,5}|[0-9.]{7,15}:[0-9]{1,5})`;
const PATTERN = new RegExp(
  `(?:^|-)(___prefill_addr_${ADDRESS}___decode_addr_${ADDRESS}_[0-9a-f]{32})(?![0-9a-zA-Z_])`,
);

/** `___prefill_addr_<ip:port>___decode_addr_<ip:port>_<32 random hex digits>`. */
export function makeRequestId(prefill: string, decode: string): string {
  return `___prefill_addr_${prefill}___decode_addr_${decode}_${randomBytes(16).toString('hex')}`;
}

/** Reads such an id, also after `cmpl-` or `chatcmpl-` and before `-0`; null for everything else. */
export function parseRequestId(text: string): PairedRequestId | null {
  if (text.length > MAX_LENGTH) return null;
  const [, id, prefill, decode] = PATTERN.exec(text) ?? [];
  if (id === undefined || prefill === undefined || decode === undefined) return null;
  if (parseAddress(prefill) === null || parseAddress(decode) === null) return null;
  return { id, prefill, decode };
}
