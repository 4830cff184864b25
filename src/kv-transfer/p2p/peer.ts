// One other instance: the control connections and the data link to it, which run of it that is, and whether it still
// answers.

import { messageOf } from '../../errors.ts';
import { type ControlChannel, NoAnswerError, type Route } from './control-channel.ts';
import {
  type Answer,
  difference,
  type Endpoints,
  type Identity,
  type MessageOf,
  type Request,
} from './messages.ts';
import type { BlockMover } from './native-mover.ts';

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
  /** Milliseconds: when something was last sent or received, and when it was last pinged. */
  lastUsed = Date.now();
  lastPing = 0;
  missedPings = 0;
  readonly #own: Identity;
  readonly #channel: ControlChannel;
  readonly #mover: BlockMover;
  readonly #handlers: PeerHandlers;
  #epoch: string | null = null;
  #endpoints: Endpoints = { shm: null, tcp: null };
  /** The connection that this instance made, and the one that the other made. */
  #outbound: Route | null = null;
  #inbound: Route | null = null;
  #handshake: Promise<void> | null = null;
  #link: Promise<number | null> | null = null;

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
    this.#introduced(identity);
  }

  /** A message of it has come. */
  markAlive(): void {
    this.lastUsed = Date.now();
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

  /** Sends a message without an answer; it is lost where there is no connection. */
  tell(message: MessageOf<'received' | 'cancel' | 'bye'>): void {
    this.lastUsed = Date.now();
    if (this.route !== null) this.#channel.send(this.route, message);
  }

  /** Asks whether it lives, where there is a connection. */
  ping(): void {
    this.lastPing = Date.now();
    if (this.route !== null) this.#request(this.route, { type: 'ping' }).catch(() => {});
  }

  /** The data link to it, which all transfers share: made at first use and when it was down. Null where none comes about. */
  async link(): Promise<number | null> {
    const current = this.#link;
    const known = await current;
    if (known !== null && this.#mover.isUp(known)) return known;
    // Another transfer may have made it meanwhile.
    if (this.#link === current) this.#link = this.#mover.connect(this.#endpoints);
    const link = await this.#link;
    return link !== null && this.#mover.isUp(link) ? link : null;
  }

  close(): void {
    this.#closeRoute(this.#outbound);
    this.#closeRoute(this.#inbound);
    this.#closeLink();
  }

  /** Null where the connection turns out to be dead. */
  async #request(route: Route, request: Request): Promise<Answer | null> {
    this.lastUsed = Date.now();
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
    const route = this.#channel.connect(this.address);
    let answer: Answer;
    try {
      answer = await this.#channel.request(route, { type: 'hello', ...this.#own });
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
    this.#closeRoute(this.#outbound);
    this.#outbound = route;
    this.#handlers.onRoute(route);
    this.#introduced(answer);
  }

  #refusalOf(answer: Answer): string | null {
    if (answer.type === 'refused') return answer.reason;
    if (answer.type !== 'welcome') return null;
    if (answer.address !== this.address) return `${answer.address} answers at ${this.address}`;
    return difference(this.#own, answer);
  }

  #introduced({ epoch, endpoints }: Identity): void {
    const isRestart = this.#epoch !== null && this.#epoch !== epoch;
    this.#epoch = epoch;
    this.#endpoints = endpoints;
    this.markAlive();
    if (!isRestart) return;
    this.#closeLink();
    this.#handlers.onRestart();
  }

  #closeRoute(route: Route | null): void {
    if (route === null) return;
    if (this.#outbound === route) this.#outbound = null;
    if (this.#inbound === route) this.#inbound = null;
    this.#handlers.onRouteClosed(route);
    route.close();
  }

  #closeLink(): void {
    const link = this.#link;
    this.#link = null;
    void link?.then((opened) => {
      if (opened !== null) this.#mover.disconnect(opened);
    });
  }
}
