// Peers that keep to no rule: they get nothing, break nothing, and leave nothing behind.

import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import { DEADLINES } from '../../src/kv-transfer/p2p/deadlines.ts';
import type { Message } from '../../src/kv-transfer/p2p/messages.ts';
import { promptHash } from '../../src/kv-transfer/p2p/messages.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { HostilePeer } from '../helpers/hostile-peer.ts';
import { COMPATIBILITY, expectedLayerBlock, type KvInstance } from '../helpers/kv-instance.ts';
import {
  closeInstancesAfterEach,
  decode,
  loaded,
  prefill,
  promptOf,
  startInstance,
  startLoad,
  untilIdle,
} from '../helpers/kv-requests.ts';
import { needsNative } from '../helpers/needs.ts';
import { until } from '../helpers/until.ts';

const PROMPT = promptOf(41);
const NUM_BLOCKS = 10;
const RESERVE = {
  type: 'reserve',
  num_tokens: 40,
  num_blocks: NUM_BLOCKS,
  hash: promptHash(PROMPT, []),
} as const;
const PULL = {
  type: 'pull',
  first_block: 0,
  num_blocks: NUM_BLOCKS,
  hash: RESERVE.hash,
  ticket: '0'.repeat(16),
} as const;

closeInstancesAfterEach();
const opened = closedAfterwards();

async function hostilePeer(): Promise<HostilePeer> {
  return opened(await HostilePeer.start());
}

const startD = (deadlines = {}) =>
  startInstance({ role: 'kv_consumer', deadlines: { sweep: 20, ...deadlines } });

describe('a hostile peer', needsNative, () => {
  it('must say hello before it asks for anything', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    const key = `${makeRequestId(s.address, d.address)}#0`;
    const answer = await s.request(s.connect(d), { ...RESERVE, key });
    expect(answer).toMatchObject({ type: 'refused', code: 'hello' });
    await untilIdle(d);
  });

  it.each([
    ['protocol', 1],
    ['model', 'other'],
    ['kernels', 'other'],
    ['dtype', 'other'],
    ['kv_cache_dtype', 'fp8'],
    ['weight_format', 'int8'],
    ['block_size', 6],
    ['block_size', 0],
    ['layers', 4],
    ['piece_bytes', 1024],
    ['heads', 8],
  ] as const)('with another %s is refused', async (field, value) => {
    const [d, s] = [await startD(), await hostilePeer()];
    const { answer } = await s.sayHello(d, { [field]: value });
    expect(answer).toMatchObject({
      type: 'refused',
      code: 'mismatch',
      reason: expect.stringContaining('differ'),
    });
    expect(d.stats.peers).toBe(0);
  });

  it.each<[string, [number, number][][]]>([
    [
      'leave a head out',
      [
        [
          [0, 3],
          [0, 3],
        ],
      ],
    ],
    [
      'hold a head twice',
      [
        [
          [0, 3],
          [0, 4],
        ],
        [
          [0, 3],
          [3, 4],
        ],
      ],
    ],
    [
      'hold layers that are not there',
      [
        [
          [0, 4],
          [0, 4],
        ],
      ],
    ],
    [
      'hold nothing',
      [
        [
          [0, 3],
          [0, 4],
        ],
        [
          [1, 1],
          [0, 4],
        ],
      ],
    ],
    [
      'end before they begin',
      [
        [
          [3, 0],
          [4, 0],
        ],
      ],
    ],
  ])('whose ranks %s is refused', async (_, places) => {
    const [d, s] = [await startD(), await hostilePeer()];
    const parts = places.map(([layers, heads]) => ({ layers: layers!, heads: heads! }));
    const { answer } = await s.sayHello(d, { parts });
    expect(answer).toMatchObject({
      code: 'mismatch',
      reason: expect.stringContaining('do not hold each of 4 heads'),
    });
    expect(d.stats.peers).toBe(0);
  });

  it('cannot be the instance itself, nor be nowhere', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    expect((await s.sayHello(d, { address: d.address })).answer).toMatchObject({ code: 'mismatch' });
    expect((await s.sayHello(d, { address: 'nowhere' })).answer).toMatchObject({ code: 'malformed' });
  });

  it('reserves room only for requests that name it as P', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    const { route } = await s.sayHello(d);
    for (const key of [
      `${makeRequestId('127.0.0.1:1', d.address)}#0`,
      makeRequestId(s.address, d.address),
      `${makeRequestId(s.address, d.address)}#x`,
      'any',
    ]) {
      expect(await s.request(route, { ...RESERVE, key })).toMatchObject({ type: 'refused', code: 'unasked' });
    }
    await untilIdle(d);
  });

  it('reserves no room for sizes that do not fit together, and not at a producer', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    const p = await startInstance({ role: 'kv_producer' });
    const key = `${makeRequestId(s.address, d.address)}#0`;
    const { route } = await s.sayHello(d);
    for (const size of [
      { num_tokens: 0 },
      { num_tokens: 41 },
      { num_blocks: 11 },
      { num_blocks: 1e9, num_tokens: 4e9 / 2 },
    ]) {
      const answer = await s.request(route, { ...RESERVE, key, ...size });
      expect(['refused', 'full']).toContain(answer.type);
    }
    const atP = await s.sayHello(p);
    const other = `${makeRequestId(s.address, p.address)}#0`;
    expect(await s.request(atP.route, { ...RESERVE, key: other })).toMatchObject({ code: 'unasked' });
    await untilIdle(d, p);
  });

  it('fills the memory at most, and not for ever', async () => {
    const [d, s] = [await startD({ unclaimed: 300 }), await hostilePeer()];
    const { route } = await s.sayHello(d);
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => {
        const key = `${makeRequestId(s.address, d.address)}#0`;
        return s.request(route, { ...RESERVE, key });
      }),
    );
    const types = new Set(answers.map(({ type }) => type));
    expect(types).toEqual(new Set(['granted', 'full']));
    await untilIdle(d);
  });

  it('gets the same ticket for the same reservation, and a new one for another', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    const { route } = await s.sayHello(d);
    const id = makeRequestId(s.address, d.address);
    const [a, again, b] = [0, 0, 1].map((index) => s.request(route, { ...RESERVE, key: `${id}#${index}` }));
    expect(await again).toMatchObject({ ticket: ((await a) as { ticket?: string }).ticket });
    expect(((await b) as { ticket?: string }).ticket).not.toBe(((await a) as { ticket?: string }).ticket);
    d.connector.cancel(id);
    await untilIdle(d);
  });

  it('that reserved for another prompt is not believed', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    const { route } = await s.sayHello(d);
    const id = makeRequestId(s.address, d.address);
    await s.request(route, { ...RESERVE, key: `${id}#0`, hash: promptHash(promptOf(41, 2), []) });
    expect(d.open(id, PROMPT)).toBeNull();
    expect(d.stats.receive.recomputed.mismatch).toBe(1);
    await untilIdle(d);
    const cancel = { type: 'cancel', key: `${id}#0` };
    await expect.poll(() => s.heard).toContainEqual(expect.objectContaining(cancel));
  });

  it('is sent no blocks of requests that are not for it', async () => {
    const [p, s] = [await startInstance({ role: 'kv_producer', sendType: 'GET' }), await hostilePeer()];
    const { route } = await s.sayHello(p);
    const id = makeRequestId(p.address, '127.0.0.1:1');
    await prefill(p, id, PROMPT);
    expect(await s.request(route, { ...PULL, key: `${id}#0` })).toMatchObject({ state: 'unknown' });
    expect(await s.request(route, { type: 'received', key: `${id}#0` })).toMatchObject({ type: 'heard' });
    expect(await s.request(route, { type: 'cancel', key: `${id}#0` })).toMatchObject({ type: 'heard' });
    expect(await s.request(route, { ...PULL, key: `${id}#0` })).toMatchObject({ state: 'unknown' });
    expect(p.stats.send.holding).toBe(1);
    p.connector.cancel(id);
    await untilIdle(p);
  });

  it('is told where what it pulls has another size or is another prompt', async () => {
    const [p, s] = [await startInstance({ role: 'kv_producer', sendType: 'GET' }), await hostilePeer()];
    const { route } = await s.sayHello(p);
    const id = makeRequestId(p.address, s.address);
    await prefill(p, id, PROMPT);
    const pull = { ...PULL, key: `${id}#0` };
    const size = { num_tokens: 40, num_blocks: 10 };
    expect(await s.request(route, { ...pull, num_blocks: 11 })).toMatchObject({ state: 'resized', ...size });
    expect(await s.request(route, { ...pull, first_block: 10 })).toMatchObject({ state: 'resized', ...size });
    expect(await s.request(route, { ...pull, hash: '0'.repeat(32) })).toMatchObject({ state: 'mismatch' });
    expect(p.stats.send.holding).toBe(1);
    // It cannot be sent anything: it listens nowhere.
    expect(await s.request(route, pull)).toMatchObject({ state: 'sending' });
    await untilIdle(p);
    expect(p.stats.send.failed).toBe(1);
  });
});

describe('a P that', needsNative, () => {
  const welcomes =
    (s: HostilePeer) =>
    (message: Message): Message | null => {
      if (message.type === 'hello') return { ...s.identity, type: 'welcome', seq: message.seq };
      return message.type === 'ping' ? { type: 'pong', seq: message.seq } : null;
    };

  it('does not even answer hello is given up after the deadline', async () => {
    const [d, s] = [await startD({ answer: 200 }), await hostilePeer()];
    expect(await decode(d, makeRequestId(s.address, d.address), PROMPT)).toBe(0);
    expect(d.stats.receive.recomputed.peer_gone).toBe(1);
    await untilIdle(d);
  });

  it('falls silent while blocks are expected is given up after three pings', async () => {
    const [d, s] = [await startD({ ping: 300 }), await hostilePeer()];
    const { route } = await s.sayHello(d);
    const id = makeRequestId(s.address, d.address);
    await s.request(route, { ...RESERVE, key: `${id}#0` });
    const loading = startLoad(d, id, PROMPT);
    expect(await loaded(d, loading!)).toBe(0);
    expect(d.stats.receive.recomputed.peer_gone).toBe(1);
    expect(s.heard.filter(({ type }) => type === 'ping')).toHaveLength(3);
    await untilIdle(d);
  });

  it.each(['it had connected', 'D had connected'])(
    'dies without a word is noticed at once (%s)',
    async (who) => {
      const [d, s] = [await startD(), await hostilePeer()];
      const id = makeRequestId(s.address, d.address);
      const size = { num_tokens: 40, num_blocks: NUM_BLOCKS };
      s.reply = (message) =>
        message.type === 'pull'
          ? { type: 'pulled', seq: message.seq, state: 'sending', ...size }
          : welcomes(s)(message);
      if (who === 'it had connected') {
        const { route } = await s.sayHello(d);
        await s.request(route, { ...RESERVE, key: `${id}#0` });
      }
      const loading = startLoad(d, id, PROMPT);
      if (who === 'D had connected') await until(() => s.heard.some(({ type }) => type === 'pull'));
      expect(d.commands).toEqual([]);
      const start = performance.now();
      await s.close();
      expect(await loaded(d, loading!)).toBe(0);
      expect(performance.now() - start).toBeLessThan(DEADLINES.ping);
      expect(d.stats.receive.recomputed.peer_gone).toBe(1);
      await untilIdle(d);
    },
  );

  it('promises blocks and sends none is asked again once, then given up', async () => {
    const [d, s] = [await startD({ stall: 100 }), await hostilePeer()];
    const about = { num_tokens: 40, num_blocks: 10 };
    s.reply = (message) =>
      message.type === 'pull'
        ? { type: 'pulled', seq: message.seq, state: 'sending', ...about }
        : welcomes(s)(message);
    expect(await decode(d, makeRequestId(s.address, d.address), PROMPT)).toBe(0);
    const tickets = s.heard.flatMap((message) => (message.type === 'pull' ? [message.ticket] : []));
    expect(new Set(tickets).size).toBe(2);
    expect(d.stats.receive.recomputed.late).toBe(1);
    await untilIdle(d);
  });

  it('always says another size is not asked for ever', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    const sizes = [
      [30, 8],
      [40, 10],
      [0, 0],
    ] as const;
    let asked = 0;
    s.reply = (message) => {
      if (message.type !== 'pull') return welcomes(s)(message);
      const [num_tokens, num_blocks] = sizes[asked++ % sizes.length]!;
      return { type: 'pulled', seq: message.seq, state: 'resized', num_tokens, num_blocks };
    };
    expect(await decode(d, makeRequestId(s.address, d.address), PROMPT)).toBe(0);
    expect(asked).toBe(2);
    expect(d.stats.receive.recomputed.mismatch).toBe(1);
    await untilIdle(d);
  });

  it('answers with what is no answer is not believed', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    s.reply = (message) =>
      message.type === 'pull' ? { type: 'full', seq: message.seq } : welcomes(s)(message);
    expect(await decode(d, makeRequestId(s.address, d.address), PROMPT)).toBe(0);
    expect(d.stats.receive.recomputed.mismatch).toBe(1);
    await untilIdle(d);
  });

  it('was there, is another run now, and knows nothing, is noticed', async () => {
    const [d, s] = [await startD(), await hostilePeer()];
    const { route } = await s.sayHello(d);
    const id = makeRequestId(s.address, d.address);
    await s.request(route, { ...RESERVE, key: `${id}#0` });
    const loading = startLoad(d, id, PROMPT);
    await s.sayHello(d, { epoch: 'two' });
    expect(await loaded(d, loading!)).toBe(0);
    expect(d.stats.receive.recomputed.peer_gone).toBe(1);
    await untilIdle(d);
  });
});

describe('a block that is damaged on the way', needsNative, () => {
  /** Passes a byte stream on; `damage` may change what goes through. */
  async function relay(target: string, damage: (bytes: Buffer) => void): Promise<string> {
    const [host, port] = target.split(':');
    const server: Server = createServer((inbound) => {
      const outbound = connect(Number(port), host);
      inbound.on('data', (bytes) => {
        damage(bytes);
        outbound.write(bytes);
      });
      outbound.pipe(inbound);
      for (const socket of [inbound, outbound]) {
        socket.on('error', () => {});
        socket.on('close', () => {
          inbound.destroy();
          outbound.destroy();
        });
      }
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    opened(server);
    const address = server.address();
    return typeof address === 'object' && address !== null ? `127.0.0.1:${address.port}` : '';
  }

  /** A peer that holds all blocks and sends them when they are pulled, through a relay that damages `howOften`. */
  async function sender(d: KvInstance, howOften: number) {
    const s = await hostilePeer();
    let left = howOften;
    const hello = await s.sayHello(d);
    if (hello.answer.type !== 'welcome') throw new Error('it was not let in');
    const tcp = await relay(hello.answer.endpoints.tcp ?? '', (bytes) => {
      // The first payload bytes of the last piece: the hello of a link is short, a frame of pieces is not.
      if (left > 0 && bytes.length > 2000) {
        left -= 1;
        bytes[bytes.length - 100]! ^= 1;
      }
    });
    const link = await s.mover.connect({ shm: null, tcp });
    s.mover.openSend(1, NUM_BLOCKS, () => {});
    const blocks = Array.from({ length: NUM_BLOCKS }, (_, index) => index);
    s.memory.onKvStep(Int32Array.of(1, 0, NUM_BLOCKS, ...blocks));
    for (let layer = 0; layer < COMPATIBILITY.layers; layer += 1) {
      for (const block of blocks) s.memory.write(layer, block, expectedLayerBlock(PROMPT, layer, block));
      s.memory.onKvLayerSaved(layer);
    }
    s.reply = (message) => {
      if (message.type === 'ping') return { type: 'pong', seq: message.seq };
      if (message.type !== 'pull') return null;
      s.mover.grant(1, link!, BigInt(`0x${message.ticket}`), message.first_block);
      return { type: 'pulled', seq: message.seq, state: 'sending', num_tokens: 40, num_blocks: NUM_BLOCKS };
    };
    return s;
  }

  it('is asked for once more', async () => {
    const d = await startD();
    const s = await sender(d, 1);
    expect(await decode(d, makeRequestId(s.address, d.address), PROMPT)).toBe(40);
    expect(d.stats.receive.corruptLayerBlocks).toBe(1);
    expect(d.stats.receive).toMatchObject({ pulled: 1 });
    expect(s.heard.filter(({ type }) => type === 'pull')).toHaveLength(2);
    await untilIdle(d);
  });

  it('twice is never used', async () => {
    const d = await startD();
    const s = await sender(d, 100);
    expect(await decode(d, makeRequestId(s.address, d.address), PROMPT)).toBe(0);
    expect(d.stats.receive.recomputed.corrupt).toBe(1);
    await untilIdle(d);
  });
});
