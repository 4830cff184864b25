// Peers over real control connections; the other end is a loopback instance, or a process that writes its own messages.

import { readdirSync } from 'node:fs';
import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { Dealer } from 'zeromq';
import { ControlChannel, type Route } from '../../../src/kv-transfer/p2p/control-channel.ts';
import { type Identity, identityOf } from '../../../src/kv-transfer/p2p/messages.ts';
import { Peer, PeerError } from '../../../src/kv-transfer/p2p/peers.ts';
import { closedAfterwards } from '../../helpers/closed-afterwards.ts';
import { freePort } from '../../helpers/svc-process.ts';
import { until } from '../../helpers/until.ts';
import { COMPATIBILITY, closeLoopbacksAfterEach, Loopback, type LoopbackOptions, WHOLE } from './loopback.ts';
import { MemoryMover } from './memory-mover.ts';

const RESERVE = { type: 'reserve', key: 'k', hash: '0'.repeat(32), num_tokens: 4, num_blocks: 1 } as const;

closeLoopbacksAfterEach();
const opened = closedAfterwards();

/** This end: a channel that listens to nobody, and all that the peer tells. */
class Near {
  readonly mover = new MemoryMover();
  readonly routes: Route[] = [];
  readonly closedRoutes: Route[] = [];
  readonly refusals: string[] = [];
  numRestarts = 0;
  readonly own: Identity;
  readonly peer: Peer;

  constructor(address: string, port: number, answerDeadline = 5000) {
    const nothing = () => {};
    const channel = new ControlChannel(
      { ip: '127.0.0.1', port, keys: null, answerDeadline },
      {
        onMessage: nothing,
        onMalformed: nothing,
        onDown: (route) => this.peer.onDown(route),
        onDisconnect: nothing,
      },
    );
    opened(channel);
    const about = { epoch: 'near', address: `127.0.0.1:${port}`, endpoints: this.mover.endpoints };
    this.own = identityOf(COMPATIBILITY, [WHOLE], about);
    this.peer = new Peer(
      address,
      this.own,
      { channel, mover: this.mover },
      {
        onRestart: () => {
          this.numRestarts += 1;
        },
        onRefused: (reason) => void this.refusals.push(reason),
        onRoute: (route) => void this.routes.push(route),
        onRouteClosed: (route) => void this.closedRoutes.push(route),
      },
    );
  }

  /** It says hello over a connection of its own. */
  hello(id: string, epoch: string, endpoints = this.mover.endpoints): Route {
    const route = { id, write: async () => {}, close: () => {} };
    this.peer.onHello({ ...this.own, address: this.peer.address, epoch, endpoints }, route);
    return route;
  }
}

async function startPair(options: LoopbackOptions = {}): Promise<{ near: Near; far: Loopback }> {
  const far = await Loopback.start(options);
  return { far, near: new Near(far.address, await freePort()) };
}

async function failure(promise: Promise<unknown>): Promise<PeerError> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof PeerError)) throw new Error(`no PeerError: ${error}`);
  return error;
}

describe('the handshake with a peer', () => {
  it('is made once for all that wait for it', async () => {
    const { near } = await startPair();
    await Promise.all([near.peer.ready(), near.peer.ready(), near.peer.request(RESERVE)]);
    await near.peer.ready();
    expect(near.routes).toHaveLength(1);
    expect(near.peer.route).toBe(near.routes[0]);
  });

  it('fails where nobody is there, and is tried again the next time', async () => {
    const port = await freePort();
    const near = new Near(`127.0.0.1:${port}`, await freePort());
    expect((await failure(near.peer.ready())).code).toBe('gone');
    await Loopback.start({ port });
    await near.peer.ready();
    expect(near.routes).toHaveLength(1);
  });

  it('fails where the two are of another kind, and the reason is told', async () => {
    const { near } = await startPair({ own: { dtype: 'f32' } });
    const error = await failure(near.peer.ready());
    expect(error.code).toBe('refused');
    expect(near.refusals).toEqual([error.message]);
    expect(error.message).toContain('the dtype differs');
    expect(near.peer.route).toBeNull();
  });

  it('fails where another instance answers at the address', async () => {
    const { port } = await Loopback.start({ own: { address: '127.0.0.1:9' } });
    const near = new Near(`127.0.0.1:${port}`, await freePort());
    const error = await failure(near.peer.ready());
    expect(error.message).toBe(`127.0.0.1:9 answers at ${near.peer.address}`);
  });

  it('has not failed where the other one makes it meanwhile', async () => {
    const far = await startSilent({ holdsBack: true });
    const near = new Near(far.address, await freePort(), 300);
    const ready = near.peer.ready();
    await until(() => far.welcomes.length === 1);
    const route = near.hello('in', 'one');
    await ready;
    expect(near.peer.route).toBe(route);
  });

  it('is not needed where the other one has made it', async () => {
    const { near, far } = await startPair();
    const route = near.hello('in', 'one');
    await near.peer.ready();
    expect(near.routes).toEqual([route]);
    expect(far.peers.size).toBe(0);
  });
});

describe('a request to a peer', () => {
  it('is answered over the connection of the handshake', async () => {
    const { near, far } = await startPair();
    expect(await near.peer.request(RESERVE)).toMatchObject({ type: 'full' });
    expect(far.types).toEqual(['reserve']);
  });

  it('is made again over a new connection where the peer does not know the old one any more', async () => {
    const { near, far } = await startPair();
    await near.peer.ready();
    far.peers.sweep(performance.now() + far.deadlines.idlePeer);
    expect(far.peers.size).toBe(0);
    expect(await near.peer.request(RESERVE)).toMatchObject({ type: 'full' });
    expect(near.routes).toHaveLength(2);
    expect(near.closedRoutes).toEqual([near.routes[0]]);
  });

  it('is made again over a new connection where the old one has ended', async () => {
    const { near, far } = await startPair();
    await near.peer.ready();
    await far.close();
    await until(() => near.peer.route === null);
    await Loopback.start({ port: far.port });
    expect(await near.peer.request(RESERVE)).toMatchObject({ type: 'full' });
  });

  it('fails after the deadline where the peer says nothing', async () => {
    const { address } = await startSilent();
    const near = new Near(address, await freePort(), 300);
    const error = await failure(near.peer.request(RESERVE));
    expect(error).toMatchObject({ code: 'gone', message: 'no answer within 300 ms' });
  });
});

/** Answers hello and nothing else. */
async function startSilent({ holdsBack = false } = {}) {
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const about = { epoch: 'one', address, endpoints: { shm: null, tcp: null } };
  const nothing = () => {};
  /** Each answers a hello; with `holdsBack` it is the test that does so. */
  const welcomes: (() => void)[] = [];
  let numDisconnects = 0;
  const channel: ControlChannel = new ControlChannel(
    { ip: '127.0.0.1', port, keys: null, answerDeadline: 300 },
    {
      onMessage: (route, { type, ...message }) => {
        if (type !== 'hello' || !('seq' in message)) return;
        const identity = identityOf(COMPATIBILITY, [WHOLE], about);
        const welcome = () => channel.send(route, { type: 'welcome', seq: message.seq, ...identity });
        welcomes.push(welcome);
        if (!holdsBack) welcome();
      },
      onDisconnect: () => {
        numDisconnects += 1;
      },
      ...{ onMalformed: nothing, onDown: nothing },
    },
  );
  opened(channel);
  await channel.listen();
  return { address, welcomes, hasDisconnected: () => numDisconnects > 0 };
}

describe('a goodbye to a peer', () => {
  it('is lost where there is no connection, and makes none', async () => {
    const { near, far } = await startPair();
    near.peer.sayGoodbye(true);
    expect(near.peer.route).toBeNull();
    await near.peer.request(RESERVE);
    expect(far.types).toEqual(['reserve']);
  });
});

describe('a ping', () => {
  it('that is answered makes up for those that were missed', async () => {
    const { near } = await startPair();
    await near.peer.ready();
    near.peer.missedPings = 2;
    near.peer.ping();
    expect(near.peer.lastPing).toBeGreaterThan(0);
    await until(() => near.peer.missedPings === 0);
  });

  it('that is not answered harms nobody', async () => {
    const near = new Near((await startSilent()).address, await freePort(), 50);
    await near.peer.ready();
    near.peer.missedPings = 2;
    near.peer.ping();
    await failure(near.peer.request({ type: 'ping' }));
    expect(near.peer.missedPings).toBe(2);
  });
});

describe('a peer that connects', () => {
  it('over a second connection gives up its first', async () => {
    const near = new Near(`127.0.0.1:${await freePort()}`, await freePort());
    const [first, second] = [near.hello('first', 'one'), near.hello('second', 'one')];
    near.hello('second', 'one');
    expect(near.routes).toEqual([first, second]);
    expect(near.closedRoutes).toEqual([first]);
    expect(near.peer.route).toBe(second);
  });

  it('has lost a connection that is down, and no other one', async () => {
    const near = new Near(`127.0.0.1:${await freePort()}`, await freePort());
    const route = near.hello('first', 'one');
    near.peer.onDown({ ...route, id: 'other' });
    expect(near.peer.route).toBe(route);
    near.peer.onDown(route);
    expect(near.peer.route).toBeNull();
    expect(near.closedRoutes).toEqual([route]);
  });

  it('as another run has been restarted', async () => {
    const near = new Near(`127.0.0.1:${await freePort()}`, await freePort());
    near.hello('first', 'one');
    near.hello('second', 'one');
    expect(near.numRestarts).toBe(0);
    near.hello('third', 'two');
    expect(near.numRestarts).toBe(1);
  });
});

describe('the data link to a peer', () => {
  async function startLinked() {
    const pair = await startPair();
    await pair.near.peer.ready();
    return { ...pair, link: await pair.near.peer.link() };
  }

  it('is made once and shared', async () => {
    const { near } = await startPair();
    await near.peer.ready();
    const links = await Promise.all([near.peer.link(), near.peer.link()]);
    expect(await near.peer.link()).toBe(links[0]);
    expect(links[1]).toBe(links[0]);
    expect(near.mover).toMatchObject({ numConnects: 1, numLinks: 1 });
  });

  it('is made anew, once, where it is down', async () => {
    const { near, link } = await startLinked();
    near.mover.disconnect(link!);
    const links = await Promise.all([near.peer.link(), near.peer.link()]);
    expect(links[0]).not.toBe(link);
    expect(links[1]).toBe(links[0]);
    expect(near.mover.numConnects).toBe(2);
  });

  it('is null where none comes about, and tried again', async () => {
    const { near, far } = await startPair();
    await near.peer.ready();
    far.mover.close();
    expect(await near.peer.link()).toBeNull();
    expect(await near.peer.link()).toBeNull();
    expect(near.mover.numConnects).toBe(2);
  });

  it('is null before there was a handshake', async () => {
    const { near } = await startPair();
    expect(await near.peer.link()).toBeNull();
  });

  it('ends with the peer', async () => {
    const { near } = await startLinked();
    near.peer.close();
    await until(() => near.mover.numLinks === 0);
    expect(near.peer.route).toBeNull();
  });

  it('ends with the run of the peer, and the next one goes to the new run', async () => {
    const { near, link } = await startLinked();
    const again = new MemoryMover();
    near.hello('in', 'two', again.endpoints);
    await until(() => !near.mover.isUp(link!));
    const next = await near.peer.link();
    near.mover.openSend(1, 1);
    near.mover.grant(1, next!, 7n, 0);
    again.openReceive(7n, { firstBlock: 0, offsets: Float64Array.of(0) });
    near.mover.save(1, 0, 'block');
    expect(again.received.get(0)).toBe('block');
  });
});

async function startTwo(deadlines = {}) {
  return { a: await Loopback.start({ deadlines }), b: await Loopback.start({ deadlines }) };
}

/** A process that writes its own messages. */
function connectRaw(node: Loopback) {
  const socket = new Dealer({ linger: 0, receiveTimeout: 5000 });
  opened(socket);
  socket.connect(`tcp://${node.address}`);
  return {
    send: (fields: unknown) => socket.send(encode(fields)),
    bytes: async () => (await socket.receive())[0]!,
    close: () => socket.close(),
  };
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
    await toB.request({ type: 'cancel', key: 'k' });
    await toA.request({ type: 'received', key: 'k' });
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

  it('and keeps no socket', async () => {
    const [a, b] = [await Loopback.start(), await Loopback.start({ own: { model: 'other' } })];
    const numOpen = () => readdirSync('/proc/self/fd').length;
    const before = numOpen();
    for (let attempt = 0; attempt < 50; attempt += 1) await failure(a.peers.get(b.address).ready());
    await until(() => numOpen() < before + 25);
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

  function giveUp({ peers, gone, deadlines }: Loopback, peer: Peer): void {
    peer.missedPings = deadlines.missedPings;
    peers.sweep(peer.lastPing + deadlines.ping);
    expect(gone).toEqual([peer.address]);
  }

  it('has forgotten all when it says that it leaves, and is asked again whether another run is there', async () => {
    const { a, b } = await startTwo();
    const raw = connectRaw(a);
    await raw.send({ type: 'hello', seq: 1, ...b.own });
    await raw.bytes();
    const peer = a.peers.get(b.address);
    peer.pins.add(pin);
    await raw.send({ type: 'bye', leaving: true });
    await until(() => peer.route?.id.startsWith('to ') ?? false);
    expect([a.restarted, a.gone]).toEqual([[b.address], []]);
  });

  it('is dropped when it says that it leaves, where nothing is open with it', async () => {
    const { a, b } = await startTwo();
    await b.peers.get(a.address).ready();
    expect(a.peers.size).toBe(1);
    await b.close();
    await until(() => a.peers.size === 0);
    expect([a.restarted, a.gone]).toEqual([[b.address], []]);
  });

  it('is gone where no socket to it can be opened', async () => {
    const near = new Near('127.0.0.1:99999', await freePort());
    expect((await failure(near.peer.ready())).code).toBe('gone');
  });

  it('is not gone because an earlier run of it says goodbye', async () => {
    const { a, b } = await startTwo();
    const address = b.address;
    // What a says to the address goes to the first run still.
    await a.peers.get(address).ready();
    const again = await Loopback.start({ own: { address, epoch: 'two' } });
    await again.peers.get(a.address).ready();
    const peer = a.peers.get(address);
    peer.pins.add(pin);
    expect(a.restarted).toEqual([address]);
    expect(peer.route?.id).toMatch(/^from /);
    await b.close();
    expect((await again.peers.get(a.address).request(RESERVE)).type).toBe('full');
    expect([a.gone, a.restarted, a.peers.get(address) === peer]).toEqual([[], [address], true]);
  });

  it('is asked over a new connection at once where it lets an idle one go', async () => {
    for (const direction of ['outbound', 'inbound']) {
      const { a, b } = await startTwo({ answer: 20_000 });
      const peer = a.peers.get(b.address);
      if (direction === 'outbound') await peer.ready();
      else await b.peers.get(a.address).ready();
      const asked = peer.request(RESERVE);
      const askedAt = performance.now();
      b.peers.sweep(performance.now() + b.deadlines.idlePeer);
      expect((await asked).type).toBe('full');
      expect(performance.now() - askedAt).toBeLessThan(a.deadlines.answer / 2);
    }
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

  it('that is given up during its handshake keeps no connection', async () => {
    const a = await Loopback.start();
    const far = await startSilent({ holdsBack: true });
    const peer = a.peers.get(far.address);
    peer.pins.add(pin);
    const failed = failure(peer.ready());
    await until(() => far.welcomes.length === 1);
    giveUp(a, peer);
    far.welcomes[0]!();
    expect((await failed).code).toBe('gone');
    expect(peer.route).toBeNull();
    await until(far.hasDisconnected);
  });

  it('is asked for a connection once between two pings, and not gone while it answers', async () => {
    const a = await Loopback.start({ deadlines: { answer: 20_000 } });
    const far = await startSilent({ holdsBack: true });
    const peer = a.peers.get(far.address);
    peer.pins.add(pin);
    const now = performance.now() + a.deadlines.ping;
    for (let sweep = 0; sweep < 10; sweep += 1) a.peers.sweep(now);
    await until(() => far.welcomes.length === 1);
    far.welcomes[0]!();
    await peer.ready();
    expect([a.gone, far.welcomes.length]).toEqual([[], 1]);
  });

  it('that was given up during its handshake is told of once, and does no harm to the one that takes its place', async () => {
    const a = await Loopback.start({ deadlines: { answer: 300 } });
    const far = await startSilent({ holdsBack: true });
    const peer = a.peers.get(far.address);
    peer.pins.add(pin);
    a.peers.sweep(performance.now() + a.deadlines.ping);
    const failed = failure(peer.ready());
    giveUp(a, peer);
    const next = a.peers.get(far.address);
    await failed;
    expect(a.gone).toEqual([far.address]);
    expect(a.peers.get(far.address)).toBe(next);
  });

  it('that is given up during a request is not connected again', async () => {
    const a = await Loopback.start();
    const far = await startSilent();
    const peer = a.peers.get(far.address);
    await peer.ready();
    peer.pins.add(pin);
    const failed = failure(peer.request(RESERVE));
    giveUp(a, peer);
    expect((await failed).code).toBe('gone');
    await until(far.hasDisconnected);
    expect(far.welcomes).toHaveLength(1);
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

  it.each([
    ['says that it ends', { type: 'bye', leaving: false }],
    ['ends without a word', null],
  ])('is gone where it %s its connection, and cannot be connected again', async (_, bye) => {
    const a = await Loopback.start();
    const raw = connectRaw(a);
    const address = `127.0.0.1:${await freePort()}`;
    await raw.send({ type: 'hello', seq: 1, ...a.own, address });
    await raw.bytes();
    a.peers.get(address).pins.add(pin);
    if (bye === null) raw.close();
    else await raw.send(bye);
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

  it('is not idle while it asks', async () => {
    const { a, b } = await startTwo();
    await a.peers.get(b.address).request(RESERVE);
    const { lastUsed } = b.peers.get(a.address);
    await until(() => performance.now() > lastUsed);
    await a.peers.get(b.address).request(RESERVE);
    b.peers.sweep(lastUsed + b.deadlines.idlePeer);
    expect(b.peers.size).toBe(1);
  });

  it('is not pinged', async () => {
    const { a, b } = await startTwo();
    await a.peers.get(b.address).ready();
    a.peers.sweep(performance.now() + a.deadlines.ping);
    expect(a.peers.get(b.address)).toMatchObject({ lastPing: 0, missedPings: 0 });
  });
});
