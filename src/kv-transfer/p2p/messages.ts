// The messages between two instances: the schema of each, the names of transfers and prompts in them, and what
// hello must agree on. README.md explains the messages.

import { encode } from '@msgpack/msgpack';
import * as z from 'zod';
import { type PairedRequestId, parseRequestId } from '../../cluster/request-id.ts';
import { type Read, readMessage } from '../../cluster/wire.ts';
import { blockHash, type ExtraKey, ROOT_HASH } from '../../kv-cache/prefix-hash.ts';
import type { KvCompatibility, KvPartPlace } from '../connector.ts';
import { divideEachOther, endsOf, makeUpOneMemory } from './cut.ts';

/** Instances with another number do not understand each other. */
const PROTOCOL = 6;
/** Bytes of the longest message. */
export const MAX_MESSAGE_BYTES = 8192;

/** More than any instance has: a message has room for them. */
const MAX_PARTS = 64;
/** All layers share their blocks. */
const ONE_GROUP = 'one';

const seq = z.int().min(0).max(0xffff_ffff);
const count = z.int().min(0).max(0x7fff_ffff);
const name = z.string().max(256);
const key = z.string().min(1).max(600);
const endpoint = z.string().min(1).max(256).nullable();
/** 64 bits. */
const ticket = z.string().regex(/^[0-9a-f]{16}$/);
/** The first half of a SHA-256. */
const hash = z.string().regex(/^[0-9a-f]{32}$/);

/** From the first up to the second. */
const range = z.tuple([count, count]);

/** What an instance says of itself in hello and in its answer. */
const self = {
  seq,
  protocol: count,
  /** A random number of this run of the instance. */
  epoch: z.string().min(1).max(64),
  /** Its control address, which request ids contain. */
  address: z.string().min(1).max(64),
  model: name,
  kernels: name,
  dtype: name,
  kv_cache_dtype: name,
  weight_format: name,
  block_size: count,
  layers: count,
  /** What an instance does not say has one group. */
  layer_groups: name.default(ONE_GROUP),
  heads: count,
  piece_bytes: count,
  /** Blocks of a transfer that hold states; an instance whose layers keep none need not say so. */
  state_blocks: count.default(0),
  /** Whether blocks are made of rows that nobody can cut; an instance whose layers have the same heads need not say so. */
  whole_rows: z.boolean().default(false),
  /** The layers and the heads of each part of its KV memory. */
  parts: z
    .array(z.object({ layers: range, heads: range }))
    .min(1)
    .max(MAX_PARTS),
  endpoints: z.object({
    shm: endpoint,
    tcp: endpoint,
    'cuda-ipc': endpoint.optional(),
    nccl: endpoint.optional(),
  }),
};

const schema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), ...self }),
  z.object({ type: z.literal('welcome'), ...self }),
  /** Sizes of transfers are in blocks of the smaller of both block sizes. */
  z.object({ type: z.literal('reserve'), seq, key, num_tokens: count, num_blocks: count, hash }),
  z.object({ type: z.literal('granted'), seq, ticket }),
  z.object({ type: z.literal('full'), seq }),
  /** D wants the blocks from `first_block` on; `num_blocks` is how many it expects the transfer to have in all. */
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
  z.object({ type: z.literal('received'), seq, key }),
  z.object({ type: z.literal('cancel'), seq, key }),
  z.object({ type: z.literal('heard'), seq }),
  z.object({ type: z.literal('ping'), seq }),
  z.object({ type: z.literal('pong'), seq }),
  /** The sender ends the connection; `leaving`: because it shuts down. */
  z.object({ type: z.literal('bye'), leaving: z.boolean() }),
  /** `hello`: the connection is not known here (any more) and must begin with a hello. */
  z.object({
    type: z.literal('refused'),
    seq: seq.nullable(),
    code: z.enum(['hello', 'malformed', 'mismatch', 'bound', 'unasked']),
    reason: z.string().max(1024),
  }),
]);

export type Message = Readonly<z.output<typeof schema>>;
export type MessageOf<T extends Message['type']> = Extract<Message, { readonly type: T }>;

const ANSWERS = ['welcome', 'granted', 'full', 'pulled', 'heard', 'pong', 'refused'] as const;
export type Answer = MessageOf<(typeof ANSWERS)[number]>;
/** A message without the number that the channel gives it. */
export type Unnumbered<T> = T extends unknown ? Omit<T, 'seq'> : never;
/** The sender is done with a transfer. */
export type Notice = Unnumbered<MessageOf<'received' | 'cancel'>>;
export type Request = Unnumbered<MessageOf<'hello' | 'reserve' | 'pull' | 'ping'>> | Notice;

export function isAnswer(message: Message): message is Answer {
  return ANSWERS.some((type) => type === message.type);
}

export function encodeMessage(message: Message): Uint8Array {
  return encode(message);
}

/** What a hello has in every protocol. */
const greeting = z.object({ type: z.enum(['hello', 'welcome']), protocol: count });

export function decodeMessage(bytes: Uint8Array): Read<Message> {
  const read = readMessage(bytes, MAX_MESSAGE_BYTES, schema);
  if (read.isValid) return read;
  const greeted = readMessage(bytes, MAX_MESSAGE_BYTES, greeting);
  // A hello of another version may have other fields: to name one of them would hide the reason.
  if (!greeted.isValid || greeted.message.protocol === PROTOCOL) return read;
  const { type, protocol } = greeted.message;
  const why = `a ${type} in protocol ${protocol}, this instance has ${PROTOCOL}: run one version of svc on both`;
  return { isValid: false, why };
}

const numbered = z.object({ seq });

/** The number of a message that is otherwise malformed, for the refusal. */
export function numberOf(bytes: Uint8Array): number | null {
  const read = readMessage(bytes, MAX_MESSAGE_BYTES, numbered);
  return read.isValid ? read.message.seq : null;
}

/** Name of a transfer at both instances: `<request id of the proxy>#<number of the prompt>`. */
export function transferKey(id: PairedRequestId, promptIndex: number): string {
  return `${id.id}#${promptIndex}`;
}

/** The request id in a key that another instance sent; null where it is no key. */
export function idOfKey(text: string): PairedRequestId | null {
  const [, requestId = ''] = /^(.*)#(?:0|[1-9][0-9]{0,8})$/.exec(text) ?? [];
  const id = parseRequestId(requestId);
  return id?.id === requestId ? id : null;
}

/** Name of a prompt, in hexadecimal: both instances must mean the same tokens and the same extra keys. */
export function promptHash(tokenIds: readonly number[], extraKeys: readonly ExtraKey[]): string {
  return Buffer.from(blockHash(ROOT_HASH, tokenIds, 0, extraKeys), 'latin1').toString('hex');
}

/** What an instance says of itself in hello. */
export type Identity = Omit<MessageOf<'hello'>, 'type' | 'seq'>;
/** Where an instance receives blocks; null where nothing listens. */
export type Endpoints = Identity['endpoints'];

export function identityOf(
  compatibility: KvCompatibility,
  places: readonly KvPartPlace[],
  rest: Pick<Identity, 'epoch' | 'address' | 'endpoints'>,
): Identity {
  const { model, isa, dtype, kvDType, weightFormat, blockSize, windows, layers, heads, layerBlockBytes } =
    compatibility;
  const { stateBlocks: state_blocks = 0, hasWholeRows: whole_rows = false } = compatibility;
  const numbers = { kernels: isa, dtype, kv_cache_dtype: kvDType, weight_format: weightFormat };
  const layer_groups = groupsText(windows);
  const shape = {
    block_size: blockSize,
    layers,
    layer_groups,
    heads,
    piece_bytes: layerBlockBytes,
    state_blocks,
    whole_rows,
  };
  const parts = places.map((place) => ({ layers: endsOf(place.layers), heads: endsOf(place.heads) }));
  return { protocol: PROTOCOL, model, ...numbers, ...shape, parts, ...rest };
}

function groupsText(windows: KvCompatibility['windows']): string {
  if (windows.length === 1) return ONE_GROUP;
  const kinds = [...new Set(windows)].map((window) => window ?? 'all');
  return `${windows.length} that see ${kinds.join(', ')} tokens`;
}

type EqualFields = readonly (readonly [keyof Identity, string])[];

/** Fields that must be equal, and what a person calls them: of what is computed, and of the layers. */
const MODEL_FIELDS = [
  ['protocol', 'protocol'],
  ['model', 'model'],
  ['kernels', 'instruction set'],
  ['dtype', 'dtype'],
  ['kv_cache_dtype', 'format of keys and values'],
  ['weight_format', 'format of the weights'],
] as const satisfies EqualFields;
const LAYER_FIELDS = [
  ['layers', 'number of layers'],
  ['layer_groups', 'division of layers into groups'],
  ['heads', 'number of KV heads'],
] as const satisfies EqualFields;

/** The first difference, in words; null where each can use the blocks of the other. */
export function difference(own: Identity, other: Identity): string | null {
  return (
    differenceIn(MODEL_FIELDS, own, other) ??
    differenceOfLayout(own, other) ??
    differenceIn(LAYER_FIELDS, own, other) ??
    differenceOfBlocks(own, other)
  );
}

function differenceIn(fields: EqualFields, own: Identity, other: Identity): string | null {
  const [field, words] = fields.find(([name]) => own[name] !== other[name]) ?? [];
  if (field === undefined) return null;
  return `the ${words} differs: ${own[field]} at ${own.address}, ${other[field]} at ${other.address}`;
}

/** Some blocks lie as each rank and stage has them: nobody cuts them. */
function differenceOfLayout(own: Identity, other: Identity): string | null {
  const reason = [own, other].map(reasonNotToCut).find((found) => found !== null);
  if (reason === undefined) return null;
  const layoutOf = ({ block_size, state_blocks, whole_rows, parts }: Identity) =>
    JSON.stringify([block_size, state_blocks, whole_rows, parts]);
  if (layoutOf(own) === layoutOf(other)) return null;
  return (
    `layers of this model ${reason} between instances of one layout only: start ${own.address} and ${other.address} ` +
    'with the same --tensor-parallel-size, --pipeline-parallel-size and --block-size'
  );
}

function reasonNotToCut({ state_blocks, whole_rows }: Identity): string | null {
  if (state_blocks > 0) return 'keep states, which go';
  return whole_rows ? 'differ in their heads of keys and values, and their blocks go' : null;
}

function differenceOfBlocks(own: Identity, other: Identity): string | null {
  const told = (value: (identity: Identity) => number) =>
    `${value(own)} at ${own.address}, ${value(other)} at ${other.address}`;
  const sizes = `block size differs: ${told(({ block_size }) => block_size)}`;
  if (!divideEachOther(own.block_size, other.block_size))
    return `the ${sizes}, and neither divides the other`;
  if (own.block_size !== other.block_size && own.layer_groups !== ONE_GROUP) {
    return `the ${sizes}, and the layers of this model are in groups`;
  }
  const tokenBytes = ({ piece_bytes, block_size }: Identity) => piece_bytes / block_size;
  if (tokenBytes(own) !== tokenBytes(other))
    return `the bytes of a token and layer differ: ${told(tokenBytes)}`;
  if (makeUpOneMemory(other)) return null;
  return `the ranks and stages of ${other.address} do not hold each of ${other.heads} heads of ${other.layers} layers`;
}
