// All peers of an instance, over real control connections.

import { encode } from '@msgpack/msgpack';
import { afterEach, describe, expect, it } from 'vitest';
import { Dealer } from 'zeromq';
import type { Identity } from '../../../src/kv-transfer/p2p/messages.ts';
import { PeerError } from '../../../src/kv-transfer/p2p/peers.ts';
import { freePort } from '../../helpers/svc-process.ts';
import { until } from '../../helpers/until.ts';
import { closeLoopbacksAfterEach, Loopback } from './loopback.ts';

const RESERVE = { type: 'reserve', key: 'k', hash: '0'.repeat(32), num_tokens: 4, num_blocks: 1 } as const;
const sockets: Dealer[] = [];

closeLoopbacksAfterEach();
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

async function startTwo(deadlines = {}) {
  return { a: await Loopback.start({ deadlines }), b: await Loopback.start({ deadlines }) };
}

/** A process that writes its own messages. */
function connectRaw(node: Loopback): { send(fields: unknown): Promise<void>; bytes(): Promise<Uint8Array> } {
  const socket = new Dealer({ linger: 0, receiveTimeout: 5000 });
  sockets.push(socket);
  socket.connect(`tcp://${node.address}`);
  return { send: (fields) => socket.send(encode(fields)), bytes: async () => (await socket.receive())[0]! };
}

describe('peers', () => {
  it('are made once for each address', async () => {
    const { a, b } = await startTwo();
    expect(a.peers.get(b.address)).toBe(a.peers.get(b.address));
    expect(a.peers.get('127.0.0.1:1')).not.toBe(a.peers.get(b.address));
    expect(a.peers.size).toBe(2);
  });

  it('are 4096 at most, and whoever operates the instance hears of it', async () => {
    const { a } = await startTwo();
    for (let port = 1; port <= 4096; port += 1) a.peers.get(`127.0.0.1:${port}`);
    expect(() => a.peers.get('127.0.0.1:9999')).toThrow(PeerError);
    expect(() => a.peers.get('127.0.0.1:9999')).toThrow('4096 peers are the most');
    expect(a.warnings).toEqual(['no KV blocks are exchanged with 127.0.0.1:9999: 4096 peers are the most']);
    expect(() => a.peers.get('127.0.0.1:1')).not.toThrow();
  });

  it('are none any more where the instance is closing', async () => {
    const { a, b } = await startTwo();
    await a.peers.close();
    expect(() => a.peers.get(b.address)).toThrow('this instance is closing');
  });

  it('need one connection for messages both ways', async () => {
    const { a, b } = await startTwo();
    await a.peers.get(b.address).request(RESERVE);
    expect(b.peers.get(a.address).route?.id).toMatch(/^from /);
    await b.peers.get(a.address).request(RESERVE);
    expect([a.types, b.types]).toEqual([['reserve'], ['reserve']]);
  });

  it('find each other where both connect at once', async () => {
    const { a, b } = await startTwo();
    const [toB, toA] = [a.peers.get(b.address), b.peers.get(a.address)];
    await Promise.all([toB.request(RESERVE), toA.request(RESERVE)]);
    toB.tell({ type: 'cancel', key: 'k' });
    toA.tell({ type: 'received', key: 'k' });
    await until(() => a.heard.length + b.heard.length === 4);
    expect(a.types.toSorted()).toEqual(['received', 'reserve']);
    expect(b.types.toSorted()).toEqual(['cancel', 'reserve']);
    expect([a.peers.size, b.peers.size]).toEqual([1, 1]);
  });
});

describe('a handshake is refused', () => {
  it('where the two differ, with one warning at each', async () => {
    const [a, b] = [await Loopback.start(), await Loopback.start({ own: { model: 'other' } })];
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await expect(a.peers.get(b.address).ready()).rejects.toThrow('the model differs');
    }
    const words = `the model differs: other at ${b.address}, m at ${a.address}`;
    expect(a.warnings).toEqual([`no KV blocks are exchanged with ${b.address}: ${words}`]);
    expect(b.warnings).toEqual([`no KV blocks are exchanged with ${a.address}: ${words}`]);
    expect(b.peers.size).toBe(0);
  });

  it.each([
    [
      'its own',
      (a: Loopback): Partial<Identity> => ({ address: a.address }),
      /is the address of the one asked/,
    ],
    ['no', (): Partial<Identity> => ({ address: 'nowhere' }), /nowhere is no address/],
  ])('where the other one has %s address', async (_, own, reason) => {
    const a = await Loopback.start();
    const raw = await Loopback.start({ own: own(a) });
    await expect(raw.peers.get(a.address).ready()).rejects.toThrow(reason);
    expect(a.peers.size).toBe(0);
  });
});

describe('a process that has not said hello', () => {
  it('is told to, and nothing else happens', async () => {
    const { a } = await startTwo();
    const raw = connectRaw(a);
    await raw.send({ ...RESERVE, seq: 5 });
    const answer = Buffer.from(await raw.bytes()).toString('latin1');
    expect(answer).toContain('say hello first');
    expect([a.heard, a.peers.size]).toEqual([[], 0]);
  });

  it('and sends a malformed message is reported once', async () => {
    const { a } = await startTwo();
    const raw = connectRaw(a);
    for (let count = 0; count < 3; count += 1) {
      await raw.send({ type: 'launch', seq: count });
      await raw.bytes();
    }
    expect(a.warnings).toEqual([
      expect.stringMatching(
        /^a process that has not said hello sent a malformed message on the control channel: /,
      ),
    ]);
  });
});

describe('a peer that sends a malformed message', () => {
  it('is reported by its address, once, beside another warning', async () => {
    const { a, b } = await startTwo();
    const raw = connectRaw(a);
    await raw.send({ type: 'hello', seq: 1, ...b.own, model: 'other' });
    await raw.bytes();
    await raw.send({ type: 'hello', seq: 2, ...b.own });
    await raw.bytes();
    for (const seq of [3, 4]) {
      await raw.send({ type: 'reserve', seq });
      await raw.bytes();
    }
    expect(a.warnings).toEqual([
      expect.stringContaining(`no KV blocks are exchanged with ${b.address}`),
      expect.stringContaining(`${b.address} sent a malformed message`),
    ]);
  });
});

describe('a peer with open transfers', () => {
  const pin = {};

  it('is gone when it says that it leaves, even where something still listens at its address', async () => {
    const { a, b } = await startTwo();
    const raw = connectRaw(a);
    await raw.send({ type: 'hello', seq: 1, ...b.own });
    await raw.bytes();
    a.peers.get(b.address).pins.add(pin);
    await raw.send({ type: 'bye', leaving: true });
    await until(() => a.gone.length + b.peers.size > 0);
    expect([a.gone, b.peers.size]).toEqual([[b.address], 0]);
  });

  it('is gone when it has left', async () => {
    const { a, b } = await startTwo();
    await a.peers.get(b.address).ready();
    a.peers.get(b.address).pins.add(pin);
    await b.close();
    await until(() => a.gone.length === 1);
    expect(a.gone).toEqual([b.address]);
    expect(a.peers.size).toBe(0);
  });

  it('is pinged, and gone after three pings without an answer', async () => {
    const a = await Loopback.start({ deadlines: { answer: 20_000 } });
    const peer = a.peers.get('127.0.0.1:1');
    peer.pins.add(pin);
    peer.onHello(
      { ...a.own, address: peer.address },
      { id: 'silent', write: async () => {}, close: () => {} },
    );
    const sweepAfterPing = () => a.peers.sweep(peer.lastPing + a.deadlines.ping);
    for (const missed of [1, 2, 3]) {
      sweepAfterPing();
      a.peers.sweep(peer.lastPing + 1);
      expect(peer.missedPings).toBe(missed);
      expect(a.gone).toEqual([]);
    }
    sweepAfterPing();
    expect(a.gone).toEqual([peer.address]);
    sweepAfterPing();
    expect(a.gone).toHaveLength(1);
  });

  it('is connected again at once where its connection ends', async () => {
    const { a, b } = await startTwo();
    const raw = connectRaw(a);
    await raw.send({ type: 'hello', seq: 1, ...b.own });
    await raw.bytes();
    const peer = a.peers.get(b.address);
    peer.pins.add(pin);
    await raw.send({ type: 'bye', leaving: false });
    await until(() => b.peers.size === 1);
    expect(a.gone).toEqual([]);
    expect(await peer.request(RESERVE)).toMatchObject({ type: 'full' });
  });

  it('is gone where it cannot be connected again', async () => {
    const a = await Loopback.start();
    const raw = connectRaw(a);
    const address = `127.0.0.1:${await freePort()}`;
    await raw.send({ type: 'hello', seq: 1, ...a.own, address });
    await raw.bytes();
    a.peers.get(address).pins.add(pin);
    await raw.send({ type: 'bye', leaving: false });
    await until(() => a.gone.length === 1);
    expect(a.gone).toEqual([address]);
  });

  it('is told of when another run of it connects', async () => {
    const { a, b } = await startTwo();
    const raw = connectRaw(a);
    for (const epoch of ['one', 'one', 'two']) {
      await raw.send({ type: 'hello', seq: 1, ...b.own, epoch });
      await raw.bytes();
    }
    expect(a.restarted).toEqual([b.address]);
  });
});

describe('a peer without open transfers', () => {
  it('is evicted when it has been idle, at both ends, and found again', async () => {
    const { a, b } = await startTwo();
    await a.peers.get(b.address).request(RESERVE);
    const { idlePeer } = a.deadlines;
    a.peers.sweep(a.peers.get(b.address).lastUsed + idlePeer - 1);
    expect(a.peers.size).toBe(1);
    a.peers.sweep(a.peers.get(b.address).lastUsed + idlePeer);
    expect(a.peers.size).toBe(0);
    await until(() => b.peers.get(a.address).route === null);
    expect(await b.peers.get(a.address).request(RESERVE)).toMatchObject({ type: 'full' });
    expect([a.gone, b.gone]).toEqual([[], []]);
  });

  it('is not pinged', async () => {
    const { a, b } = await startTwo();
    await a.peers.get(b.address).ready();
    a.peers.sweep(Date.now() + a.deadlines.ping);
    expect(a.peers.get(b.address)).toMatchObject({ lastPing: 0, missedPings: 0 });
  });
});
