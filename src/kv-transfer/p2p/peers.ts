// All other instances that this one has to do with: made at first use, greeted, watched while transfers are open, let go
// when idle.

import { parseAddress } from '../../cluster/address.ts';
import { type ChannelOptions, ControlChannel, type Route } from './control-channel.ts';
import type { Deadlines } from './deadlines.ts';
import { difference, type Identity } from './identity.ts';
import type { Answer, Message, MessageOf, Unnumbered } from './messages.ts';
import { Peer, PeerError } from './peer.ts';

export interface PeerHandlers {
  /** The answer of a request. */
  readonly asked: (peer: Peer, message: MessageOf<'reserve' | 'pull'>) => Unnumbered<Answer>;
  readonly told: (peer: Peer, message: MessageOf<'received' | 'cancel'>) => void;
  /** What was open with this instance is void. */
  readonly gone: (address: string) => void;
  /** It is no peer any more, for whatever reason. */
  readonly closed: (address: string) => void;
  /** What this instance was told by an earlier run of the other is void. */
  readonly restarted: (address: string) => void;
  readonly warn: (message: string) => void;
}

/** An instance that meets more is no longer in one cluster. */
const MAX_PEERS = 4096;

export class Peers {
  readonly #channel: ControlChannel;
  readonly #own: Identity;
  readonly #deadlines: Deadlines;
  readonly #handlers: PeerHandlers;
  readonly #peers = new Map<string, Peer>();
  readonly #byRoute = new Map<string, Peer>();
  #isClosed = false;
  /** Instances that were found to differ: said once. */
  readonly #refused = new Set<string>();

  constructor(
    options: Omit<ChannelOptions, 'answerDeadline'>,
    own: Identity,
    deadlines: Deadlines,
    handlers: PeerHandlers,
  ) {
    this.#own = own;
    this.#deadlines = deadlines;
    this.#handlers = handlers;
    this.#channel = new ControlChannel(
      { ...options, answerDeadline: deadlines.answer },
      {
        message: (route, message) => this.#receive(route, message),
        // The instance may have died: one with open transfers is greeted again at once.
        down: (route) => this.#byRoute.get(route.id)?.lost(route),
        someoneLeft: () => this.#askAll(),
      },
    );
  }

  /** @throws ConfigError where the address cannot be listened on. */
  listen(): Promise<void> {
    return this.#channel.listen();
  }

  get size(): number {
    return this.#peers.size;
  }

  /** @throws PeerError where there are too many. */
  get(address: string): Peer {
    const known = this.#peers.get(address);
    if (known !== undefined) return known;
    if (this.#isClosed) throw new PeerError('gone', 'this instance is closing');
    if (this.#peers.size >= MAX_PEERS) throw new PeerError('refused', `${MAX_PEERS} peers are the most`);
    const peer: Peer = new Peer(address, this.#own, this.#channel, {
      newRun: () => this.#handlers.restarted(address),
      routed: (route) => this.#byRoute.set(route.id, peer),
      unrouted: (route) => {
        this.#byRoute.delete(route.id);
        if (peer.numOpen > 0) queueMicrotask(() => this.#greetAgain(peer));
      },
    });
    this.#peers.set(address, peer);
    return peer;
  }

  find(address: string): Peer | null {
    return this.#peers.get(address) ?? null;
  }

  /** Says once that an instance cannot be used. */
  complain(address: string, reason: string): void {
    if (this.#refused.has(address) || this.#refused.size >= MAX_PEERS) return;
    this.#refused.add(address);
    this.#handlers.warn(`no KV blocks are exchanged with ${address}: ${reason}`);
  }

  /** To be called now and then: pings who must live, lets go who is not needed. */
  sweep(now: number): void {
    for (const peer of [...this.#peers.values()]) {
      if (peer.numOpen > 0) this.#watch(peer, now);
      else if (now - peer.lastUsed >= this.#deadlines.idlePeer) this.#letGo(peer, false);
    }
  }

  close(): Promise<void> {
    this.#isClosed = true;
    for (const peer of [...this.#peers.values()]) this.#letGo(peer, true);
    return this.#channel.close();
  }

  #watch(peer: Peer, now: number): void {
    if (now - peer.lastPing < this.#deadlines.ping) return;
    if (peer.missedPings >= this.#deadlines.missedPings) this.#forget(peer);
    else this.#askAlive(peer);
  }

  #letGo(peer: Peer, leaving: boolean): void {
    peer.tell({ type: 'bye', leaving });
    this.#peers.delete(peer.address);
    peer.close();
    this.#handlers.closed(peer.address);
  }

  /** It is dead, or as good as dead. */
  #forget(peer: Peer): void {
    if (this.#peers.get(peer.address) !== peer) return;
    this.#peers.delete(peer.address);
    peer.close();
    this.#handlers.closed(peer.address);
    this.#handlers.gone(peer.address);
  }

  #receive(route: Route, message: Exclude<Message, Answer>): void {
    if (message.type === 'hello') {
      this.#channel.send(route, this.#introduced(route, message));
      return;
    }
    const peer = this.#byRoute.get(route.id);
    if (peer === undefined) {
      const seq = 'seq' in message ? message.seq : null;
      this.#channel.send(route, { type: 'refused', seq, code: 'hello', reason: 'say hello first' });
      return;
    }
    peer.heard();
    this.#handle(peer, route, message);
  }

  #handle(peer: Peer, route: Route, message: Exclude<Message, Answer | MessageOf<'hello'>>): void {
    switch (message.type) {
      case 'ping':
        this.#channel.send(route, { type: 'pong', seq: message.seq });
        break;
      case 'bye':
        if (message.leaving) this.#forget(peer);
        else peer.lost(route);
        break;
      case 'received':
      case 'cancel':
        this.#handlers.told(peer, message);
        break;
      default:
        this.#channel.send(route, { ...this.#handlers.asked(peer, message), seq: message.seq });
    }
  }

  #introduced(route: Route, message: MessageOf<'hello'>): Message {
    const { seq } = message;
    const reason = difference(this.#own, message);
    if (reason !== null) {
      this.complain(message.address, reason);
      return { type: 'refused', seq, code: 'mismatch', reason };
    }
    if (parseAddress(message.address) === null) {
      return { type: 'refused', seq, code: 'malformed', reason: `${message.address} is no address` };
    }
    if (message.address === this.#own.address) {
      return {
        type: 'refused',
        seq,
        code: 'mismatch',
        reason: `${message.address} is the address of the one asked`,
      };
    }
    try {
      this.get(message.address).adopt(message, route);
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      return { type: 'refused', seq, code: 'bound', reason: error.message };
    }
    return { type: 'welcome', seq, ...this.#own };
  }

  #askAlive(peer: Peer): void {
    peer.missedPings += 1;
    if (peer.route === null) this.#greetAgain(peer);
    else peer.ping();
  }

  #greetAgain(peer: Peer): void {
    if (this.#peers.get(peer.address) !== peer) return;
    peer.lastPing = Date.now();
    peer.ready().catch(() => this.#forget(peer));
  }

  /** Whose connection has ended shows when it is written to. */
  #askAll(): void {
    for (const peer of this.#peers.values()) if (peer.numOpen > 0) peer.ping();
  }
}
