// The other instances that this one has to do with: made at first use, pinged while transfers are open, evicted when idle. A
// peer owns its control connections and its data link, and knows which run of the instance is at the other end.

import { parseAddress } from '../../cluster/address.ts';
import { messageOf } from '../../errors.ts';
import { type ChannelOptions, ControlChannel, NoAnswerError, type Route } from './control-channel.ts';
import { type Cut, cutOf } from './cut.ts';
import type { Deadlines } from './deadlines.ts';
import {
  type Answer,
  difference,
  type Endpoints,
  type Identity,
  type Message,
  type MessageOf,
  type Notice,
  type Request,
  type Unnumbered,
} from './messages.ts';
import type { BlockMover } from './native-mover.ts';

export interface PeersHandlers {
  /** @returns the answer. */
  readonly onRequest: (peer: Peer, message: MessageOf<'reserve' | 'pull'>) => Unnumbered<Answer>;
  readonly onNotice: (peer: Peer, notice: Notice) => void;
  /** The instance is dead: everything that is open with it is void. */
  readonly onGone: (address: string) => void;
  /** A run of the instance is over: everything that it was told is void. */
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
      else if (now >= peer.lastUsed + this.#options.deadlines.idlePeer) this.#evict(peer, false);
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
    if (now < peer.lastPing + ping) return;
    if (peer.missedPings >= missedPings) {
      this.#giveUp(peer);
      return;
    }
    peer.missedPings += 1;
    if (peer.route === null) this.#reconnect(peer);
    else peer.ping();
  }

  #reconnect(peer: Peer): void {
    peer.lastPing = performance.now();
    peer.ready().catch(() => this.#giveUp(peer));
  }

  /** The channel does not know whose connection has ended; writing to it shows. */
  #pingAll(): void {
    for (const peer of this.#byAddress.values()) if (peer.pins.size > 0) peer.ping();
  }

  #evict(peer: Peer, isLeaving: boolean): void {
    peer.sayGoodbye(isLeaving);
    this.#remove(peer);
  }

  /** This run of the instance is over. Another one may be there, and what is open with it goes on over a new connection. */
  #left(peer: Peer): void {
    peer.close();
    this.#handlers.onRestart(peer.address);
    if (peer.pins.size === 0) this.#remove(peer);
  }

  /** The instance is dead, or as good as dead. */
  #giveUp(peer: Peer): void {
    if (this.#byAddress.get(peer.address) !== peer) return;
    this.#remove(peer);
    this.#handlers.onGone(peer.address);
  }

  #remove(peer: Peer): void {
    this.#byAddress.delete(peer.address);
    peer.retire();
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
        if (message.leaving) this.#left(peer);
        else peer.onDown(route);
        break;
      case 'received':
      case 'cancel':
        this.#handlers.onNotice(peer, message);
        this.#channel.send(route, { type: 'heard', seq: message.seq });
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

/** Why an instance cannot be used: it is not there, or it is of another kind. */
export class PeerError extends Error {
  override readonly name = 'PeerError';
  readonly code: 'gone' | 'refused';

  constructor(code: 'gone' | 'refused', message: string) {
    super(message);
    this.code = code;
  }
}

interface PeerHandlers {
  /** Another run of the instance is at the address than before. */
  readonly onRestart: () => void;
  /** The two instances do not let each other in. */
  readonly onRefused: (reason: string) => void;
  /** From now on messages of this connection are the peer's. */
  readonly onRoute: (route: Route) => void;
  readonly onRouteClosed: (route: Route) => void;
}

export class Peer {
  readonly address: string;
  /** Transfers that are open with it: it is pinged meanwhile, and not evicted. */
  readonly pins = new Set<unknown>();
  /** By performance.now(): when something was last sent or received, and when it was last pinged. */
  lastUsed = performance.now();
  lastPing = 0;
  missedPings = 0;
  readonly #own: Identity;
  readonly #channel: ControlChannel;
  readonly #mover: BlockMover;
  readonly #handlers: PeerHandlers;
  #epoch: string | null = null;
  #endpoints: Endpoints = { shm: null, tcp: null };
  #cut: Cut | null = null;
  /** The connection that this instance made, and the one that the other made. */
  #outbound: Route | null = null;
  #inbound: Route | null = null;
  #handshake: Promise<void> | null = null;
  #link: Promise<number | null> | null = null;
  #isRetired = false;

  constructor(
    address: string,
    own: Identity,
    { channel, mover }: { readonly channel: ControlChannel; readonly mover: BlockMover },
    handlers: PeerHandlers,
  ) {
    this.address = address;
    this.#own = own;
    this.#channel = channel;
    this.#mover = mover;
    this.#handlers = handlers;
  }

  /** Of the blocks of both; null before it has said what its own are. */
  get cut(): Cut | null {
    return this.#cut;
  }

  get route(): Route | null {
    return this.#outbound ?? this.#inbound;
  }

  /** It has said hello over a connection that it made. */
  onHello(identity: Identity, route: Route): void {
    if (this.#inbound?.id !== route.id) {
      this.#closeRoute(this.#inbound);
      this.#inbound = route;
      this.#handlers.onRoute(route);
    }
    this.#introduced(identity, route);
  }

  /** A message of it has come. */
  markAlive(): void {
    this.lastUsed = performance.now();
    this.missedPings = 0;
  }

  /** This connection is over; the next message makes another. */
  onDown(route: Route): void {
    if (this.#outbound?.id === route.id) this.#closeRoute(this.#outbound);
    if (this.#inbound?.id === route.id) this.#closeRoute(this.#inbound);
  }

  /**
   * Resolves when there is a connection that began with a handshake.
   * @throws PeerError
   */
  ready(): Promise<void> {
    if (this.route !== null) return Promise.resolve();
    this.#handshake ??= this.#shakeHands().finally(() => {
      this.#handshake = null;
    });
    return this.#handshake;
  }

  /**
   * Asks, over a new connection where the old one turns out to be dead.
   * @throws PeerError
   */
  async request(request: Request): Promise<Answer> {
    for (let attempt = 0; attempt < 2; attempt += 1) {
      await this.ready();
      const { route } = this;
      const answer = route === null ? null : await this.#request(route, request);
      if (answer !== null) return answer;
    }
    throw new PeerError('gone', 'the connection was lost twice');
  }

  /** Where there is a connection; `leaving`: this instance shuts down. */
  sayGoodbye(leaving: boolean): void {
    if (this.route !== null) this.#channel.send(this.route, { type: 'bye', leaving });
  }

  /** Asks whether it lives, where there is a connection. */
  ping(): void {
    this.lastPing = performance.now();
    if (this.route !== null) this.#request(this.route, { type: 'ping' }).catch(() => {});
  }

  /** The data link to it, which all transfers share: made at first use and when it was down. Null where none comes about. */
  async link(): Promise<number | null> {
    const current = this.#link;
    const known = await current;
    if (known !== null && this.#mover.isUp(known)) return known;
    // Another transfer may have made it meanwhile.
    if (this.#link === current)
      this.#link = this.#mover.connect(this.#endpoints, this.cut ?? undefined, this.address);
    const link = await this.#link;
    return link !== null && this.#mover.isUp(link) ? link : null;
  }

  close(): void {
    this.#closeRoute(this.#outbound);
    this.#closeRoute(this.#inbound);
    this.#closeLink();
  }

  /** Closes it for good: nobody would close a connection that is made after this. */
  retire(): void {
    this.#isRetired = true;
    this.close();
  }

  /** Null where the connection turns out to be dead. */
  async #request(route: Route, request: Request): Promise<Answer | null> {
    this.lastUsed = performance.now();
    try {
      const answer = await this.#channel.request(route, request);
      this.markAlive();
      if (answer.type !== 'refused' || answer.code !== 'hello') return answer;
      this.onDown(route);
      return null;
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error;
      if (this.route?.id === route.id) throw new PeerError('gone', error.message);
      return null;
    }
  }

  async #shakeHands(): Promise<void> {
    this.#expectInUse();
    const route = this.#connect();
    let answer: Answer;
    try {
      answer = await this.#channel.request(route, { type: 'hello', ...this.#own });
      this.#expectInUse();
    } catch (error) {
      route.close();
      // It may have connected to this instance meanwhile.
      if (this.route !== null) return;
      throw new PeerError('gone', messageOf(error));
    }
    const refusal = this.#refusalOf(answer);
    if (answer.type !== 'welcome' || refusal !== null) {
      route.close();
      const reason = refusal ?? 'it does not answer hello';
      this.#handlers.onRefused(reason);
      throw new PeerError('refused', reason);
    }
    this.#outbound = route;
    this.#handlers.onRoute(route);
    this.#introduced(answer, route);
  }

  /** @throws PeerError */
  #expectInUse(): void {
    if (this.#isRetired) throw new PeerError('gone', 'the instance has been given up');
  }

  /** @throws PeerError, also where this process can open no more sockets. */
  #connect(): Route {
    try {
      return this.#channel.connect(this.address);
    } catch (error) {
      throw new PeerError('gone', messageOf(error));
    }
  }

  #refusalOf(answer: Answer): string | null {
    if (answer.type === 'refused') return answer.reason;
    if (answer.type !== 'welcome') return null;
    if (answer.address !== this.address) return `${answer.address} answers at ${this.address}`;
    return difference(this.#own, answer);
  }

  #introduced(identity: Identity, route: Route): void {
    const { epoch, endpoints } = identity;
    const isRestart = this.#epoch !== null && this.#epoch !== epoch;
    this.#epoch = epoch;
    this.#endpoints = endpoints;
    this.#cut = cutOf(this.#own, identity);
    this.markAlive();
    if (!isRestart) return;
    // The other connection is to the run before, whose last words are not this one's.
    for (const other of [this.#outbound, this.#inbound]) if (other?.id !== route.id) this.#closeRoute(other);
    this.#closeLink();
    this.#handlers.onRestart();
  }

  #closeRoute(route: Route | null): void {
    if (route === null) return;
    if (this.#outbound === route) this.#outbound = null;
    if (this.#inbound === route) this.#inbound = null;
    this.#handlers.onRouteClosed(route);
    this.#channel.drop(route, 'the connection was closed');
  }

  #closeLink(): void {
    const link = this.#link;
    this.#link = null;
    void link?.then((opened) => {
      if (opened !== null) this.#mover.disconnect(opened);
    });
  }
}
