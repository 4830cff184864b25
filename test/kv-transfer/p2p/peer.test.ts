// One peer over real control connections; the other end is a loopback instance.

import { afterEach, describe, expect, it } from 'vitest';
import { ControlChannel, type Route } from '../../../src/kv-transfer/p2p/control-channel.ts';
import { type Identity, identityOf } from '../../../src/kv-transfer/p2p/messages.ts';
import { Peer, PeerError } from '../../../src/kv-transfer/p2p/peers.ts';
import { freePort } from '../../helpers/svc-process.ts';
import { until } from '../../helpers/until.ts';
import { COMPATIBILITY, closeLoopbacksAfterEach, Loopback, type LoopbackOptions } from './loopback.ts';
import { MemoryMover } from './memory-mover.ts';

const RESERVE = { type: 'reserve', key: 'k', hash: '0'.repeat(32), num_tokens: 4, num_blocks: 1 } as const;
const opened: ControlChannel[] = [];

closeLoopbacksAfterEach();
afterEach(async () => {
  await Promise.all(opened.splice(0).map((channel) => channel.close()));
});

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
    opened.push(channel);
    const about = { epoch: 'near', address: `127.0.0.1:${port}`, endpoints: this.mover.endpoints };
    this.own = identityOf(COMPATIBILITY, about);
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
    far.peers.sweep(Date.now() + far.deadlines.idlePeer);
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
    const address = await startSilent();
    const near = new Near(address, await freePort(), 300);
    const error = await failure(near.peer.request(RESERVE));
    expect(error).toMatchObject({ code: 'gone', message: 'no answer within 300 ms' });
  });
});

/** Answers hello and nothing else. @returns its address. */
async function startSilent(): Promise<string> {
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const about = { epoch: 'one', address, endpoints: { shm: null, tcp: null } };
  const nothing = () => {};
  const channel: ControlChannel = new ControlChannel(
    { ip: '127.0.0.1', port, keys: null, answerDeadline: 300 },
    {
      onMessage: (route, { type, ...message }) => {
        if (type !== 'hello' || !('seq' in message)) return;
        channel.send(route, { type: 'welcome', seq: message.seq, ...identityOf(COMPATIBILITY, about) });
      },
      ...{ onMalformed: nothing, onDown: nothing, onDisconnect: nothing },
    },
  );
  opened.push(channel);
  await channel.listen();
  return address;
}

describe('a message to a peer', () => {
  it('arrives over the connection that there is', async () => {
    const { near, far } = await startPair();
    await near.peer.ready();
    near.peer.tell({ type: 'cancel', key: 'k' });
    await until(() => far.heard.length === 1);
    expect(far.heard).toEqual([{ type: 'cancel', key: 'k' }]);
  });

  it('is lost where there is no connection, and makes none', async () => {
    const { near, far } = await startPair();
    near.peer.tell({ type: 'cancel', key: 'lost' });
    expect(near.peer.route).toBeNull();
    await near.peer.request(RESERVE);
    expect(far.types).toEqual(['reserve']);
  });

  it('counts as use, as an answer does', async () => {
    const { near } = await startPair();
    near.peer.lastUsed = 0;
    near.peer.tell({ type: 'cancel', key: 'k' });
    expect(near.peer.lastUsed).toBeGreaterThan(0);
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
    const near = new Near(await startSilent(), await freePort(), 50);
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
    again.openReceive(7n, 0, Float64Array.of(0));
    near.mover.save(1, 0, 'block');
    expect(again.received.get(0)).toBe('block');
  });
});
