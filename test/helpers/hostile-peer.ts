// A peer whose every message the test writes: it speaks the control channel and moves real blocks, but keeps to no rule.

import { ControlChannel, type Route } from '../../src/kv-transfer/p2p/control-channel.ts';
import {
  type Answer,
  type Identity,
  identityOf,
  type Message,
  type Request,
} from '../../src/kv-transfer/p2p/messages.ts';
import { NativeMover } from '../../src/kv-transfer/p2p/native-mover.ts';
import { loadNative } from '../../src/native/native.ts';
import type { NativeKvMemory } from '../../src/native/native-transfer.ts';
import { COMPATIBILITY, type KvInstance, LAYER_BLOCK, NUM_BLOCKS, WHOLE } from './kv-instance.ts';
import { freePort } from './svc-process.ts';

const nothing = () => {};

export class HostilePeer {
  readonly identity: Identity;
  readonly heard: Message[] = [];
  readonly memory: NativeKvMemory;
  readonly mover: NativeMover;
  /** What it answers to requests of the other; null is silence. */
  reply: (message: Message) => Message | null = () => null;
  readonly #channel: ControlChannel;

  private constructor(identity: Identity, port: number, memory: NativeKvMemory, mover: NativeMover) {
    this.identity = identity;
    this.memory = memory;
    this.mover = mover;
    this.#channel = new ControlChannel(
      { ip: '127.0.0.1', port, keys: null, answerDeadline: 10_000 },
      {
        onMessage: (route, message) => this.#onMessage(route, message),
        onMalformed: nothing,
        onDown: nothing,
        onDisconnect: nothing,
      },
    );
  }

  static async start(): Promise<HostilePeer> {
    const port = await freePort();
    const { KvMemory } = loadNative();
    const memory = new KvMemory(COMPATIBILITY.layers, NUM_BLOCKS, LAYER_BLOCK);
    const mover = new NativeMover(
      {
        parts: [{ ...WHOLE, token: memory.share() }],
        receiveBytes: 0,
        transport: 'tcp',
        listenIp: null,
        connectTimeoutMs: 1000,
      },
      nothing,
    );
    const about = { epoch: 'one', address: `127.0.0.1:${port}`, endpoints: { shm: null, tcp: null } };
    const peer = new HostilePeer(identityOf(COMPATIBILITY, [WHOLE], about), port, memory, mover);
    await peer.#channel.listen();
    return peer;
  }

  get address(): string {
    return this.identity.address;
  }

  connect(instance: KvInstance): Route {
    return this.#channel.connect(instance.address);
  }

  /** Connects and says hello, as itself or as another. */
  async sayHello(
    instance: KvInstance,
    as: Partial<Identity> = {},
  ): Promise<{ route: Route; answer: Answer }> {
    const route = this.connect(instance);
    return { route, answer: await this.request(route, { type: 'hello', ...this.identity, ...as }) };
  }

  request(route: Route, request: Request): Promise<Answer> {
    return this.#channel.request(route, request);
  }

  send(route: Route, message: Message): void {
    this.#channel.send(route, message);
  }

  async close(): Promise<void> {
    this.mover.close();
    await this.#channel.close();
  }

  #onMessage(route: Route, message: Message): void {
    this.heard.push(message);
    const answer = this.reply(message);
    if (answer !== null) this.#channel.send(route, answer);
  }
}
