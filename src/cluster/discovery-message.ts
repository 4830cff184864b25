// What an instance tells the discovery port of the proxy, one msgpack map per message: three keys that all instances of the
// protocol send, and optional ones of our own.

import { encode } from '@msgpack/msgpack';
import * as z from 'zod';
import { type Read, readMessage } from './wire.ts';

/** Longer messages are refused. */
export const MAX_REGISTRATION_BYTES = 4096;

const count = z.int().min(0);
/** `host:port`; the host is a name, an IPv4 address or an IPv6 address in brackets. Names such as 300.1.1.1 are none of these. */
const address = z
  .string()
  .max(280)
  .regex(/^(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?):[1-9][0-9]{0,4}$/)
  .refine((text) => URL.canParse(`http://${text}`));

const schema = z.object({
  /** P computes prompts, as do instances with the role kv_both; D decodes. */
  type: z.enum(['P', 'D']),
  http_address: address,
  /** Its control address, which paired request ids contain. */
  zmq_address: address,
  /** Missing means ready. A draining instance takes no new requests; `gone` is its last message. */
  state: z.enum(['ready', 'draining', 'gone']).optional(),
  /** A random number, another one after each start of the instance. */
  epoch: z.string().max(64).optional(),
  /** The name under which it serves its model. */
  model: z.string().max(512).optional(),
  load: z.object({ running: count, waiting: count, free_blocks: count, num_blocks: count }).optional(),
  /** The proxy shows it to be believed whose request it passes on. */
  proxy_token: z.string().max(64).optional(),
  role: z.enum(['kv_producer', 'kv_consumer', 'kv_both']).optional(),
  send_type: z.enum(['PUT', 'GET', 'PUT_ASYNC']).optional(),
  /** Layers of its model keep states: it goes on from the whole of a prompt that it has received, and from no beginning of it. */
  keeps_states: z.boolean().optional(),
});

export type RegistrationMessage = Readonly<z.output<typeof schema>>;
export type InstanceLoad = NonNullable<RegistrationMessage['load']>;

export function encodeRegistration(message: RegistrationMessage): Uint8Array {
  return encode(message);
}

export function readRegistration(bytes: Uint8Array): Read<RegistrationMessage> {
  return readMessage(bytes, MAX_REGISTRATION_BYTES, schema);
}
