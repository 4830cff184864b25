// Every message of the control channel: its schema, and how it becomes bytes and comes back. README.md tells what they
// mean; control-channel.ts carries them.

import { encode } from '@msgpack/msgpack';
import { z } from 'zod';
import { type Read, readMessage } from '../../cluster/wire.ts';

/** Instances that say another number do not understand each other. */
export const PROTOCOL = 1;
/** Bytes of the longest message. */
export const MAX_MESSAGE_BYTES = 8192;

const seq = z.int().min(0).max(0xffff_ffff);
const count = z.int().min(0).max(0x7fff_ffff);
const name = z.string().max(256);
const key = z.string().min(1).max(600);
const endpoint = z.string().min(1).max(256).nullable();
/** 64 bits. */
const ticket = z.string().regex(/^[0-9a-f]{16}$/);
/** The first half of a SHA-256. */
const hash = z.string().regex(/^[0-9a-f]{32}$/);

/** Who an instance is, in hello and its answer. */
const self = {
  seq,
  protocol: count,
  /** Of this run of the instance. */
  epoch: z.string().min(1).max(64),
  /** Where it can be reached: what request ids carry. */
  address: z.string().min(1).max(64),
  model: name,
  kernels: name,
  dtype: name,
  block_size: count,
  layers: count,
  piece_bytes: count,
  rank: count,
  endpoints: z.object({ shm: endpoint, tcp: endpoint }),
};

const schema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), ...self }),
  z.object({ type: z.literal('welcome'), ...self }),
  z.object({ type: z.literal('reserve'), seq, key, num_tokens: count, num_blocks: count, hash }),
  z.object({ type: z.literal('granted'), seq, ticket }),
  z.object({ type: z.literal('full'), seq }),
  /** D asks for the blocks from `first_block` on; `num_blocks` is what it takes the transfer to have in all. */
  z.object({ type: z.literal('pull'), seq, key, ticket, first_block: count, num_blocks: count, hash }),
  z.object({
    type: z.literal('pulled'),
    seq,
    /**
     * unknown: not heard of yet; gone: over. resized: nothing is sent, the transfer has another number of blocks;
     * mismatch: it is of another prompt.
     */
    state: z.enum(['sending', 'computing', 'unknown', 'gone', 'resized', 'mismatch']),
    num_tokens: count,
    num_blocks: count,
  }),
  z.object({ type: z.literal('received'), key }),
  z.object({ type: z.literal('cancel'), key }),
  z.object({ type: z.literal('ping'), seq }),
  z.object({ type: z.literal('pong'), seq }),
  /** The one who connected goes; `leaving`: for ever. */
  z.object({ type: z.literal('bye'), leaving: z.boolean() }),
  /** `hello`: who asks is not known here (any more) and must begin anew. */
  z.object({
    type: z.literal('refused'),
    seq: seq.nullable(),
    code: z.enum(['hello', 'malformed', 'mismatch', 'bound', 'unasked']),
    reason: z.string().max(1024),
  }),
]);

export type Message = Readonly<z.output<typeof schema>>;
export type MessageType = Message['type'];
export type MessageOf<T extends MessageType> = Extract<Message, { readonly type: T }>;

const ANSWERS = ['welcome', 'granted', 'full', 'pulled', 'pong', 'refused'] as const;
export type Answer = MessageOf<(typeof ANSWERS)[number]>;
/** What is answered, without the number that channel gives it. */
export type Request = Unnumbered<MessageOf<'hello' | 'reserve' | 'pull' | 'ping'>>;
/** The channel gives the number. */
export type Unnumbered<T> = T extends unknown ? Omit<T, 'seq'> : never;

export function isAnswer(message: Message): message is Answer {
  return ANSWERS.some((type) => type === message.type);
}

export function encodeMessage(message: Message): Uint8Array {
  return encode(message);
}

export function decodeMessage(bytes: Uint8Array): Read<Message> {
  return readMessage(bytes, MAX_MESSAGE_BYTES, schema);
}

const Numbered = z.object({ seq });

/** The number of a message that is otherwise wrong, so that its sender can be told. */
export function numberOf(bytes: Uint8Array): number | null {
  const read = readMessage(bytes, MAX_MESSAGE_BYTES, Numbered);
  return read.isValid ? read.message.seq : null;
}
