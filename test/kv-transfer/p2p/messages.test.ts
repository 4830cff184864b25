import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../../src/cluster/request-id.ts';
import {
  decodeMessage,
  difference,
  encodeMessage,
  type Identity,
  identityOf,
  idOfKey,
  isAnswer,
  MAX_MESSAGE_BYTES,
  type Message,
  numberOf,
  promptHash,
  transferKey,
} from '../../../src/kv-transfer/p2p/messages.ts';
import { COMPATIBILITY, WHOLE } from './loopback.ts';

const RUN = { epoch: 'one', address: '127.0.0.1:1', endpoints: { shm: null, tcp: '127.0.0.1:2' } };
const OWN = identityOf(COMPATIBILITY, [WHOLE], RUN);
const HASH = '0'.repeat(32);
const TICKET = '0123456789abcdef';
const SIZE = { num_tokens: 4, num_blocks: 1 };
const MESSAGES: readonly Message[] = [
  { type: 'hello', seq: 1, ...OWN },
  { type: 'welcome', seq: 1, ...OWN },
  { type: 'reserve', seq: 2, key: 'k', hash: HASH, ...SIZE },
  { type: 'granted', seq: 2, ticket: TICKET },
  { type: 'full', seq: 2 },
  { type: 'pull', seq: 3, key: 'k', hash: HASH, ticket: TICKET, first_block: 0, num_blocks: 1 },
  { type: 'pulled', seq: 3, state: 'computing', ...SIZE },
  { type: 'received', seq: 4, key: 'k' },
  { type: 'cancel', seq: 5, key: 'k' },
  { type: 'heard', seq: 5 },
  { type: 'ping', seq: 6 },
  { type: 'pong', seq: 6 },
  { type: 'bye', leaving: true },
  { type: 'refused', seq: null, code: 'hello', reason: 'say hello first' },
];

function readFields(fields: object) {
  return decodeMessage(encode(fields));
}

describe('a message', () => {
  it.each(MESSAGES)('of type $type is read as it was written', (message) => {
    expect(decodeMessage(encodeMessage(message))).toEqual({ isValid: true, message });
  });

  it('is an answer where its type is one of the answers', () => {
    const answers = MESSAGES.filter((message) => isAnswer(message)).map(({ type }) => type);
    expect(answers).toEqual(['welcome', 'granted', 'full', 'pulled', 'heard', 'pong', 'refused']);
  });

  it.each([1, 2, 3])(
    'of greeting in protocol %s, with the fields of that version, is refused by its protocol',
    (protocol) => {
      const { kv_cache_dtype, weight_format, ...older } = OWN;
      for (const type of ['hello', 'welcome']) {
        expect(readFields({ type, seq: 1, ...older, protocol })).toEqual({
          isValid: false,
          why: `a ${type} in protocol ${protocol}, this instance has 6: run one version of svc on both`,
        });
      }
    },
  );

  it('of greeting in the protocol of this version is refused by the field that is missing', () => {
    const { kv_cache_dtype, ...rest } = OWN;
    expect(readFields({ type: 'hello', seq: 1, ...rest })).toMatchObject({
      isValid: false,
      why: expect.stringContaining('kv_cache_dtype'),
    });
  });

  it.each([
    ['has an unknown type', { type: 'launch', seq: 1 }],
    ['lacks a field', { type: 'reserve', seq: 1, key: 'k', ...SIZE }],
    ['has a negative number', { ...MESSAGES[2], num_blocks: -1 }],
    ['has a number that is not whole', { ...MESSAGES[2], num_blocks: 1.5 }],
    ['has a ticket of another length', { ...MESSAGES[3], ticket: 'abc' }],
    ['has an empty key', { ...MESSAGES[7], key: '' }],
    ['has a key that is too long', { ...MESSAGES[7], key: 'k'.repeat(601) }],
    ['has a sequence number beyond 32 bits', { type: 'ping', seq: 2 ** 32 }],
  ])('that %s is refused', (_, fields) => {
    expect(readFields(fields)).toMatchObject({ isValid: false });
  });

  it('is read up to its longest length', () => {
    const bytes = new Uint8Array(MAX_MESSAGE_BYTES + 1);
    expect(decodeMessage(bytes)).toMatchObject({ isValid: false, why: expect.stringContaining('at most') });
  });

  it('has a number that can be read where all else is wrong', () => {
    expect(numberOf(encode({ type: 'launch', seq: 7 }))).toBe(7);
    expect(numberOf(encode({ seq: -7 }))).toBeNull();
    expect(numberOf(encode('hello'))).toBeNull();
    expect(numberOf(new Uint8Array([0xc1]))).toBeNull();
  });
});

describe('the key of a transfer', () => {
  const id = makeRequestId('10.0.0.1:1', '[fd00::2]:2');

  it('tells the request id that it was made of', () => {
    fc.assert(
      fc.property(fc.nat(999_999_999), (promptIndex) => {
        const key = transferKey({ id, prefill: '10.0.0.1:1', decode: '[fd00::2]:2' }, promptIndex);
        expect(idOfKey(key)).toEqual({ id, prefill: '10.0.0.1:1', decode: '[fd00::2]:2' });
      }),
    );
  });

  it.each([
    id,
    `${id}#`,
    `${id}#x`,
    `${id}#01`,
    `${id}#-1`,
    `${id}#1234567890`,
    `cmpl-${id}#0`,
    `${id}-0#0`,
    '#0',
    '',
  ])('is not %j', (text) => {
    expect(idOfKey(text)).toBeNull();
  });
});

describe('the hash of a prompt', () => {
  it('is another one for other tokens and for other extra keys', () => {
    const salted = [{ position: 0, key: ['salt', 'mine'] as const }];
    const hashes = [
      promptHash([1, 2], []),
      promptHash([1, 3], []),
      promptHash([1], []),
      promptHash([1, 2], salted),
    ];
    expect(new Set(hashes).size).toBe(4);
    expect(promptHash([1, 2], [])).toBe(hashes[0]);
    expect(hashes.every((hash) => /^[0-9a-f]{32}$/.test(hash))).toBe(true);
  });
});

const otherLayout = (reason: string) =>
  `layers of this model ${reason} between instances of one layout only: start 127.0.0.1:1 and 127.0.0.1:1 with the same ` +
  '--tensor-parallel-size, --pipeline-parallel-size and --block-size';
const OTHER_LAYOUT = otherLayout('keep states, which go');
const OTHER_ROWS = otherLayout('differ in their heads of keys and values, and their blocks go');

describe('the difference between two instances', () => {
  const whole = { layers: [0, 2], heads: [0, 1] } as const;
  const grouped = { layer_groups: '2 that see all, 20 tokens' };

  it.each<[string, Partial<Identity>, Partial<Identity>]>([
    ['whose blocks are of half the size', {}, { block_size: 2, piece_bytes: 4 }],
    ['whose blocks are four times as large', {}, { block_size: 16, piece_bytes: 32 }],
    [
      'whose ranks hold the same',
      {},
      { parts: [whole, whole].map(({ layers, heads }) => ({ layers: [...layers], heads: [...heads] })) },
    ],
    [
      'of two stages',
      {},
      {
        parts: [
          { layers: [0, 1], heads: [0, 1] },
          { layers: [1, 2], heads: [0, 1] },
        ],
      },
    ],
    ['whose states are in as many blocks', { state_blocks: 3 }, { state_blocks: 3 }],
    ['whose rows are whole, too', { whole_rows: true }, { whole_rows: true }],
  ])('is none to one %s', (_, own, other) => {
    expect(difference({ ...OWN, ...own }, { ...OWN, ...other })).toBeNull();
  });

  it.each<[Partial<Identity>, Partial<Identity>, string]>([
    [
      {},
      { block_size: 6 },
      'the block size differs: 4 at 127.0.0.1:1, 6 at 127.0.0.1:1, and neither divides the other',
    ],
    [
      grouped,
      { ...grouped, block_size: 8, piece_bytes: 16 },
      'the block size differs: 4 at 127.0.0.1:1, 8 at 127.0.0.1:1, and the layers of this model are in groups',
    ],
    [{}, { piece_bytes: 16 }, 'the bytes of a token and layer differ: 2 at 127.0.0.1:1, 4 at 127.0.0.1:1'],
    [
      {},
      { parts: [{ layers: [0, 1], heads: [0, 1] }] },
      'the ranks and stages of 127.0.0.1:1 do not hold each of 1 heads of 2 layers',
    ],
    [{ state_blocks: 3 }, { state_blocks: 3, block_size: 8, piece_bytes: 16 }, OTHER_LAYOUT],
    [{ state_blocks: 3 }, { state_blocks: 5 }, OTHER_LAYOUT],
    [
      { state_blocks: 3 },
      {
        state_blocks: 3,
        parts: [
          { layers: [0, 1], heads: [0, 1] },
          { layers: [1, 2], heads: [0, 1] },
        ],
      },
      OTHER_LAYOUT,
    ],
    [{ whole_rows: true }, { whole_rows: true, block_size: 8, piece_bytes: 16 }, OTHER_ROWS],
    [
      { whole_rows: true },
      { whole_rows: true, layers: 3, parts: [{ layers: [0, 3], heads: [0, 1] }] },
      OTHER_ROWS,
    ],
    [
      { whole_rows: true },
      {
        whole_rows: true,
        heads: 2,
        parts: [
          { layers: [0, 2], heads: [0, 1] },
          { layers: [0, 2], heads: [1, 2] },
        ],
      },
      OTHER_ROWS,
    ],
    [{}, { whole_rows: true }, OTHER_ROWS],
  ])('%j to %j says why', (own, other, words) => {
    expect(difference({ ...OWN, ...own }, { ...OWN, ...other })).toBe(words);
  });

  it('is none where only run, address and endpoints differ', () => {
    const rest = { epoch: 'two', address: '10.0.0.1:1', endpoints: { shm: 'x', tcp: null } };
    expect(difference(OWN, { ...OWN, ...rest })).toBeNull();
  });

  it('is none to an instance that does not say how its layers are grouped, where they are one group', () => {
    const { layer_groups, ...older } = OWN;
    const read = decodeMessage(encode({ type: 'hello', seq: 1, ...older }));
    expect(read).toMatchObject({ isValid: true, message: { layer_groups: 'one' } });
    const grouped = identityOf({ ...COMPATIBILITY, windows: [null, 20, 20] }, [WHOLE], RUN);
    expect(grouped.layer_groups).toBe('3 that see all, 20 tokens');
  });

  it.each([
    ['protocol', 1, 'protocol'],
    ['model', 'other', 'model'],
    ['kernels', 'avx2', 'instruction set'],
    ['dtype', 'f32', 'dtype'],
    ['kv_cache_dtype', 'fp8', 'format of keys and values'],
    ['weight_format', 'int8', 'format of the weights'],
    ['layers', 3, 'number of layers'],
    ['layer_groups', '2 that see all, 20 tokens', 'division of layers into groups'],
    ['heads', 2, 'number of KV heads'],
  ] as const satisfies readonly (readonly [keyof Identity, ...unknown[]])[])(
    'of another %s is told with both values and both addresses',
    (field, value, words) => {
      const other = { ...OWN, address: '10.0.0.1:9', [field]: value };
      expect(difference(OWN, other)).toBe(
        `the ${words} differs: ${OWN[field]} at 127.0.0.1:1, ${value} at 10.0.0.1:9`,
      );
    },
  );
});
