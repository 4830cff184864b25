// All other instances that this one has to do with: made at first use, pinged while transfers are open, evicted when idle.
// It answers their handshakes and pings, and passes on what they say about transfers.

import { parseAddress } from '../../cluster/address.ts';
import { type ChannelOptions, ControlChannel, type Route } from './control-channel.ts';
import type { Deadlines } from './deadlines.ts';
import {
  type Answer,
  difference,
  type Identity,
  type Message,
  type MessageOf,
  type Unnumbered,
} from './messages.ts';
import type { BlockMover } from './native-mover.ts';
import { Peer, PeerError } from './peer.ts';

export interface PeersHandlers {
  /** @returns the answer. */
  readonly onRequest: (peer: Peer, message: MessageOf<'reserve' | 'pull'>) => Unnumbered<Answer>;
  readonly onMessage: (peer: Peer, message: MessageOf<'received' | 'cancel'>) => void;
  /** The instance is dead, or has left: everything that is open with it is void. */
  readonly onGone: (address: string) => void;
  /** Everything that an earlier run of the instance was told is void. */
  readonly onRestart: (address: string) => void;
  /** Gets messages for a person. */
  readonly warn: (message: string) => void;
}

export interface PeersOptions extends Omit<ChannelOptions, 'answerDeadline'> {
  readonly own: Identity;
  readonly deadlines: Deadlines;
  readonly mover: BlockMover;
}

/** No cluster is larger; requests to more instances are computed here. */
const MAX_PEERS = 4096;

export class Peers {
  readonly #options: PeersOptions;
  readonly #channel: ControlChannel;
  readonly #handlers: PeersHandlers;
  readonly #byAddress = new Map<string, Peer>();
  readonly #byRoute = new Map<string, Peer>();
  /** Warnings are given once an instance. */
  readonly #warned = new Set<string>();
  #isClosed = false;

  constructor(options: PeersOptions, handlers: PeersHandlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.#channel = new ControlChannel(
      { ...options, answerDeadline: options.deadlines.answer },
      {
        onMessage: (route, message) => this.#onMessage(route, message),
        onMalformed: (route, why) => this.#onMalformed(route, why),
        // The instance may have died: one with open transfers is connected again at once.
        onDown: (route) => this.#byRoute.get(route.id)?.onDown(route),
        onDisconnect: () => this.#pingAll(),
      },
    );
  }

  /** @throws ConfigError where the address cannot be listened on. */
  listen(): Promise<void> {
    return this.#channel.listen();
  }

  get size(): number {
    return this.#byAddress.size;
  }

  /** @throws PeerError where there are too many. */
  get(address: string): Peer {
    const known = this.#byAddress.get(address);
    if (known !== undefined) return known;
    if (this.#isClosed) throw new PeerError('gone', 'this instance is closing');
    if (this.#byAddress.size >= MAX_PEERS) {
      const reason = `${MAX_PEERS} peers are the most`;
      this.#warnOfRefusal(address, reason);
      throw new PeerError('refused', reason);
    }
    const { own, mover } = this.#options;
    const peer: Peer = new Peer(
      address,
      own,
      { channel: this.#channel, mover },
      {
        onRestart: () => this.#handlers.onRestart(address),
        onRefused: (reason) => this.#warnOfRefusal(address, reason),
        onRoute: (route) => this.#byRoute.set(route.id, peer),
        onRouteClosed: (route) => {
          this.#byRoute.delete(route.id);
          if (peer.pins.size > 0) queueMicrotask(() => this.#reconnect(peer));
        },
      },
    );
    this.#byAddress.set(address, peer);
    return peer;
  }

  /** To be called now and then: pings peers with open transfers, evicts idle ones. */
  sweep(now: number): void {
    for (const peer of [...this.#byAddress.values()]) {
      if (peer.pins.size > 0) this.#watch(peer, now);
      else if (now - peer.lastUsed >= this.#options.deadlines.idlePeer) this.#evict(peer, false);
    }
  }

  /** Says goodbye to all. Resolves when the port is free. */
  close(): Promise<void> {
    this.#isClosed = true;
    for (const peer of [...this.#byAddress.values()]) this.#evict(peer, true);
    return this.#channel.close();
  }

  #watch(peer: Peer, now: number): void {
    const { ping, missedPings } = this.#options.deadlines;
    if (now - peer.lastPing < ping) return;
    if (peer.missedPings >= missedPings) {
      this.#giveUp(peer);
      return;
    }
    peer.missedPings += 1;
    if (peer.route === null) this.#reconnect(peer);
    else peer.ping();
  }

  #reconnect(peer: Peer): void {
    if (this.#byAddress.get(peer.address) !== peer) return;
    peer.lastPing = Date.now();
    peer.ready().catch(() => this.#giveUp(peer));
  }

  /** The channel does not know whose connection has ended; writing to it shows. */
  #pingAll(): void {
    for (const peer of this.#byAddress.values()) if (peer.pins.size > 0) peer.ping();
  }

  #evict(peer: Peer, isLeaving: boolean): void {
    peer.tell({ type: 'bye', leaving: isLeaving });
    this.#remove(peer);
  }

  /** The instance is dead, or as good as dead. */
  #giveUp(peer: Peer): void {
    if (this.#byAddress.get(peer.address) !== peer) return;
    this.#remove(peer);
    this.#handlers.onGone(peer.address);
  }

  #remove(peer: Peer): void {
    this.#byAddress.delete(peer.address);
    peer.close();
  }

  #onMessage(route: Route, message: Exclude<Message, Answer>): void {
    if (message.type === 'hello') {
      this.#channel.send(route, { ...this.#answerHello(route, message), seq: message.seq });
      return;
    }
    const peer = this.#byRoute.get(route.id);
    if (peer === undefined) {
      const seq = 'seq' in message ? message.seq : null;
      this.#channel.send(route, { type: 'refused', seq, code: 'hello', reason: 'say hello first' });
      return;
    }
    peer.markAlive();
    switch (message.type) {
      case 'ping':
        this.#channel.send(route, { type: 'pong', seq: message.seq });
        break;
      case 'bye':
        if (message.leaving) this.#giveUp(peer);
        else peer.onDown(route);
        break;
      case 'received':
      case 'cancel':
        this.#handlers.onMessage(peer, message);
        break;
      default:
        this.#channel.send(route, { ...this.#handlers.onRequest(peer, message), seq: message.seq });
    }
  }

  #answerHello(route: Route, hello: MessageOf<'hello'>): Unnumbered<Answer> {
    const { own } = this.#options;
    const { address } = hello;
    const reason = difference(own, hello);
    if (reason !== null) {
      this.#warnOfRefusal(address, reason);
      return { type: 'refused', code: 'mismatch', reason };
    }
    if (parseAddress(address) === null) {
      return { type: 'refused', code: 'malformed', reason: `${address} is no address` };
    }
    if (address === own.address) {
      return { type: 'refused', code: 'mismatch', reason: `${address} is the address of the one asked` };
    }
    try {
      this.get(address).onHello(hello, route);
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      return { type: 'refused', code: 'bound', reason: error.message };
    }
    return { type: 'welcome', ...own };
  }

  #warnOfRefusal(address: string, reason: string): void {
    this.#warnOnce(address, `no KV blocks are exchanged with ${address}: ${reason}`);
  }

  #onMalformed(route: Route, why: string): void {
    const address = this.#byRoute.get(route.id)?.address ?? 'a process that has not said hello';
    this.#warnOnce(
      `malformed ${address}`,
      `${address} sent a malformed message on the control channel: ${why}`,
    );
  }

  #warnOnce(name: string, message: string): void {
    if (this.#warned.has(name) || this.#warned.size >= MAX_PEERS) return;
    this.#warned.add(name);
    this.#handlers.warn(message);
  }
}
