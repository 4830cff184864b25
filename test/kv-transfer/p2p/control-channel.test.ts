import { readdirSync } from 'node:fs';
import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Dealer } from 'zeromq';
import { curveKeys } from '../../../src/cluster/zmq.ts';
import { ConfigError } from '../../../src/errors.ts';
import { ControlChannel, NoAnswerError, type Route } from '../../../src/kv-transfer/p2p/control-channel.ts';
import type { Message } from '../../../src/kv-transfer/p2p/messages.ts';
import { closedAfterwards } from '../../helpers/closed-afterwards.ts';
import { freePort } from '../../helpers/svc-process.ts';
import { until } from '../../helpers/until.ts';

const SECRET = 'a secret of our own';
const OTHER = 'a secret of theirs';
const nothing = () => {};

/** A channel that answers pings and remembers what it heard. */
class Listener {
  readonly port: number;
  readonly heard: Message[] = [];
  /** Of the last message. */
  route: Route | null = null;
  readonly malformed: string[] = [];
  numDown = 0;
  numDisconnects = 0;
  readonly channel: ControlChannel;

  private constructor(port: number, secret: string | null, answerDeadline: number) {
    this.port = port;
    const keys = curveKeys(secret);
    this.channel = new ControlChannel(
      { ip: '127.0.0.1', port, keys, answerDeadline },
      {
        onMessage: (route, message) => this.#onMessage(route, message),
        onMalformed: (_, why) => this.malformed.push(why),
        onDown: () => {
          this.numDown += 1;
        },
        onDisconnect: () => {
          this.numDisconnects += 1;
        },
      },
    );
  }

  static async start(secret: string | null = null, answerDeadline = 10_000): Promise<Listener> {
    const listener = new Listener(await freePort(), secret, answerDeadline);
    await listener.channel.listen();
    opened(listener.channel);
    return listener;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  #onMessage(route: Route, message: Message): void {
    this.heard.push(message);
    this.route = route;
    if (message.type === 'ping') this.channel.send(route, { type: 'pong', seq: message.seq });
  }
}

function channelAt(ip: string, port: number): ControlChannel {
  const handlers = { onMessage: nothing, onMalformed: nothing, onDown: nothing, onDisconnect: nothing };
  return new ControlChannel({ ip, port, keys: null, answerDeadline: 1 }, handlers);
}

const opened = closedAfterwards();

describe('the control channel', () => {
  it('carries requests and their answers, many at once', async () => {
    const [a, b] = [await Listener.start(), await Listener.start()];
    const route = a.channel.connect(b.address);
    const answers = await Promise.all(
      Array.from({ length: 500 }, () => a.channel.request(route, { type: 'ping' })),
    );
    expect(new Set(answers.map(({ type }) => type))).toEqual(new Set(['pong']));
    expect(new Set(answers.map(({ seq }) => seq)).size).toBe(500);
  });

  it('says that nobody is there, before the deadline', async () => {
    const a = await Listener.start();
    const route = a.channel.connect(`127.0.0.1:${await freePort()}`);
    await expect(a.channel.request(route, { type: 'ping' })).rejects.toThrow('nobody is there');
    expect(a.numDown).toBe(1);
  });

  it('says at once that the other end has gone, on both ends', async () => {
    const [a, b] = [await Listener.start(), await Listener.start()];
    const route = a.channel.connect(b.address);
    await a.channel.request(route, { type: 'ping' });
    route.close();
    await expect.poll(() => b.numDisconnects).toBe(1);
    const second = a.channel.connect(b.address);
    await a.channel.request(second, { type: 'ping' });
    b.channel.close();
    await expect.poll(() => a.numDown).toBe(1);
  });

  it('says that a message cannot leave because the instance that made the connection has gone', async () => {
    const [a, b] = [await Listener.start(), await Listener.start()];
    const toB = a.channel.connect(b.address);
    await a.channel.request(toB, { type: 'ping' });
    toB.close();
    await until(() => {
      b.channel.send(b.route!, { type: 'pong', seq: 1 });
      return b.numDown > 0;
    });
    await expect(b.channel.request(b.route!, { type: 'ping' })).rejects.toThrow('Host unreachable');
  });

  it('that closes ends its connections, and nobody waits for answers any more', async () => {
    const [a, b] = [await Listener.start(), await Listener.start()];
    const route = a.channel.connect(b.address);
    const about = { key: 'k', hash: '0'.repeat(32), num_tokens: 1, num_blocks: 1 };
    const asked = a.channel.request(route, { type: 'reserve', ...about });
    await until(() => b.heard.length > 0);
    const closed = a.channel.close();
    await expect(asked).rejects.toThrow('this instance is closing');
    await closed;
    await until(() => b.numDisconnects > 0);
  });

  it('waits for no answer beyond the deadline', async () => {
    const [a, b] = [await Listener.start(null, 300), await Listener.start()];
    const route = a.channel.connect(b.address);
    const about = { key: 'k', hash: '0'.repeat(32), num_tokens: 1, num_blocks: 1 };
    await expect(a.channel.request(route, { type: 'reserve', ...about })).rejects.toThrow(
      'no answer within 300 ms',
    );
    await until(() => b.heard.length > 0);
    expect(b.heard).toMatchObject([{ type: 'reserve' }]);
  });

  it('that cannot listen keeps no socket', async () => {
    const { port } = await Listener.start();
    const numOpen = () => readdirSync('/proc/self/fd').length;
    const before = numOpen();
    for (let attempt = 0; attempt < 50; attempt += 1) {
      await expect(channelAt('127.0.0.1', port).listen()).rejects.toThrow(ConfigError);
    }
    await until(() => numOpen() < before + 25);
  });

  it('names the fix where the port is taken or the address is not of this machine', async () => {
    const { port } = await Listener.start();
    const listen = (ip: string) => channelAt(ip, port).listen();
    await expect(listen('127.0.0.1')).rejects.toThrow(ConfigError);
    await expect(listen('127.0.0.1')).rejects.toThrow(
      /kv_port \d+ of 127\.0\.0\.1 is taken: give this instance another/,
    );
    await expect(listen('192.0.2.1')).rejects.toThrow(
      /kv_ip 192\.0\.2\.1 is no address of this machine: give one that it has/,
    );
  });
});

describe('a shared secret', () => {
  it('lets those in who have it', async () => {
    const [a, b] = [await Listener.start(SECRET), await Listener.start(SECRET)];
    expect(await a.channel.request(a.channel.connect(b.address), { type: 'ping' })).toMatchObject({
      type: 'pong',
    });
  });

  it.each([
    ['another one', OTHER],
    ['none', null],
  ])('keeps those out who have %s', async (_, secret) => {
    const [a, b] = [await Listener.start(secret, 300), await Listener.start(SECRET)];
    await expect(a.channel.request(a.channel.connect(b.address), { type: 'ping' })).rejects.toThrow(
      NoAnswerError,
    );
    expect(b.heard).toEqual([]);
  });

  it('is not told to a listener that has none', async () => {
    const [a, b] = [await Listener.start(SECRET, 300), await Listener.start(null)];
    await expect(a.channel.request(a.channel.connect(b.address), { type: 'ping' })).rejects.toThrow(
      NoAnswerError,
    );
    expect(b.heard).toEqual([]);
  });

  it('gives the same keys wherever it is given, and others for another', () => {
    expect(curveKeys(SECRET)).toEqual(curveKeys(SECRET));
    expect(curveKeys(SECRET)?.publicKey).not.toBe(curveKeys(OTHER)?.publicKey);
    expect(curveKeys(SECRET)?.publicKey).toHaveLength(40);
  });
});

describe('what is no message', () => {
  /** Sends raw frames and returns the answers that come within a moment. */
  /** Over a connection that stays until the end of the test. */
  async function sendRaw(listener: Listener, ...messages: (Uint8Array | Uint8Array[])[]): Promise<Dealer> {
    const socket = new Dealer({ linger: 0 });
    opened(socket);
    socket.connect(`tcp://${listener.address}`);
    for (const message of messages) await socket.send(message);
    return socket;
  }

  it('is reported, refused with its number where it has one, and does no harm', async () => {
    const b = await Listener.start();
    const socket = await sendRaw(
      b,
      encode({ type: 'reserve', seq: 7, key: 5 }),
      encode({ type: 'launch', seq: 8 }),
      encode('hello'),
      new Uint8Array(100).fill(0xff),
      [encode({ type: 'ping', seq: 1 }), encode({ type: 'ping', seq: 2 })],
      encode({ type: 'ping', seq: 9 }),
    );
    for (let answers = 0; answers < 6; answers += 1) await socket.receive();
    expect(b.malformed).toHaveLength(5);
    expect(b.heard).toEqual([{ type: 'ping', seq: 9 }]);
  });

  it('of any bytes leaves the channel alive', async () => {
    const b = await Listener.start();
    const garbage = fc.sample(fc.uint8Array({ maxLength: 300 }), 300);
    await sendRaw(b, ...garbage, encode({ type: 'ping', seq: 1 }));
    await until(() => b.heard.length > 0);
    expect(b.heard).toEqual([{ type: 'ping', seq: 1 }]);
  });

  it('because it is too large ends the connection', async () => {
    const b = await Listener.start();
    await sendRaw(b, new Uint8Array(1e6));
    await until(() => b.numDisconnects > 0);
    expect(b.heard).toEqual([]);
    await sendRaw(b, encode({ type: 'ping', seq: 1 }));
    await until(() => b.heard.length === 1);
  });

  it('because it answers what another instance was asked is ignored', async () => {
    const [a, b] = [await Listener.start(null, 1500), await Listener.start()];
    const about = { key: 'k', hash: '0'.repeat(32), num_tokens: 1, num_blocks: 1 };
    const answer = a.channel.request(a.channel.connect(b.address), { type: 'reserve', ...about });
    const isLate = expect(answer).rejects.toThrow('no answer within 1500 ms');
    await expect.poll(() => b.heard.length).toBe(1);
    const seq = b.heard[0] !== undefined && 'seq' in b.heard[0] ? b.heard[0].seq : null;
    await sendRaw(a, encode({ type: 'full', seq }));
    await isLate;
  });

  it('because it answers what was not asked is ignored', async () => {
    const b = await Listener.start();
    await sendRaw(b, encode({ type: 'granted', seq: 1, ticket: '0123456789abcdef' }));
    expect([b.heard, b.malformed]).toEqual([[], []]);
  });
});
