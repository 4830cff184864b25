// What an instance tells the proxy's discovery port, one msgpack map a message: the three keys of the existing protocol
// and, optional so that its instances can join, ours.

import { encode } from '@msgpack/msgpack';
import { z } from 'zod';
import { type Read, readMessage } from './wire.ts';

/** Bytes of the longest message that is read. */
export const MAX_REGISTRATION_BYTES = 4096;

const count = z.int().min(0);
/** `host:port`; the host is a name, an IPv4 address or an IPv6 address in brackets. */
const address = z
  .string()
  .max(280)
  .regex(/^(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?):[1-9][0-9]{0,4}$/)
  .refine((text) => Number(text.slice(text.lastIndexOf(':') + 1)) <= 65535);

const schema = z.object({
  /** P: it computes prompts (kv_both as well); D: it decodes. */
  type: z.enum(['P', 'D']),
  http_address: address,
  /** Its control address: what request ids carry. */
  zmq_address: address,
  /** Missing is ready. `draining` takes no new requests, `gone` is the last message. */
  state: z.enum(['ready', 'draining', 'gone']).optional(),
  /** A random number of this run of the instance. */
  epoch: z.string().max(64).optional(),
  /** The name under which it serves its model. */
  model: z.string().max(512).optional(),
  load: z.object({ running: count, waiting: count, free_blocks: count, num_blocks: count }).optional(),
  /** The proxy shows it to be believed whose request it passes on. */
  proxy_token: z.string().max(64).optional(),
  role: z.enum(['kv_producer', 'kv_consumer', 'kv_both']).optional(),
  send_type: z.enum(['PUT', 'GET', 'PUT_ASYNC']).optional(),
});

export type RegistrationMessage = Readonly<z.output<typeof schema>>;
export type InstanceLoad = NonNullable<RegistrationMessage['load']>;

export function encodeRegistration(message: RegistrationMessage): Uint8Array {
  return encode(message);
}

export function readRegistration(bytes: Uint8Array): Read<RegistrationMessage> {
  return readMessage(bytes, MAX_REGISTRATION_BYTES, schema);
}
