// One other instance: how it is reached, which run of it that is, and whether it still answers. peers.ts holds them all.

import { type ControlChannel, NoAnswerError, type Route } from './control-channel.ts';
import { difference, type Endpoints, type Identity } from './identity.ts';
import type { Answer, MessageOf, Request } from './messages.ts';

/** Why an instance cannot be used: it is not there, or it is of another kind. */
export class PeerError extends Error {
  override readonly name = 'PeerError';
  readonly code: 'gone' | 'refused';

  constructor(code: 'gone' | 'refused', message: string) {
    super(message);
    this.code = code;
  }
}

export interface PeerEvents {
  /** Another run of the instance is at the address than before. */
  readonly newRun: () => void;
  /** Messages of this connection are its own. */
  readonly routed: (route: Route) => void;
  readonly unrouted: (route: Route) => void;
}

export class Peer {
  readonly address: string;
  /** Transfers that are open with it: it is pinged meanwhile. */
  numOpen = 0;
  /** When something was last said, in either direction, and when it was last asked whether it lives. */
  lastUsed = Date.now();
  lastPing = 0;
  missedPings = 0;
  readonly #channel: ControlChannel;
  readonly #own: Identity;
  readonly #events: PeerEvents;
  #epoch: string | null = null;
  #endpoints: Endpoints = { shm: null, tcp: null };
  /** Connections that this instance made, and that the other made. */
  #out: Route | null = null;
  #in: Route | null = null;
  #greeting: Promise<void> | null = null;

  constructor(address: string, own: Identity, channel: ControlChannel, events: PeerEvents) {
    this.address = address;
    this.#own = own;
    this.#channel = channel;
    this.#events = events;
  }

  /** Where it listens for blocks; known once it has been greeted. */
  get endpoints(): Endpoints {
    return this.#endpoints;
  }

  get route(): Route | null {
    return this.#out ?? this.#in;
  }

  /** It has introduced itself over a connection of its own. */
  adopt(identity: Identity, route: Route): void {
    if (this.#in?.id !== route.id) {
      this.#drop(this.#in);
      this.#in = route;
      this.#events.routed(route);
    }
    this.#introduced(identity);
  }

  heard(): void {
    this.lastUsed = Date.now();
    this.missedPings = 0;
  }

  /** This connection is over; the next message makes another. */
  lost(route: Route): void {
    if (this.#out?.id === route.id) this.#drop(this.#out);
    if (this.#in?.id === route.id) this.#drop(this.#in);
  }

  /**
   * Resolves when it has been greeted.
   * @throws PeerError
   */
  ready(): Promise<void> {
    if (this.route !== null) return Promise.resolve();
    this.#greeting ??= this.#greet().finally(() => {
      this.#greeting = null;
    });
    return this.#greeting;
  }

  /**
   * Asks, over a new connection where the one at hand turns out to be none any more.
   * @throws PeerError
   */
  async request(request: Request): Promise<Answer> {
    for (let attempt = 0; attempt < 2; attempt += 1) {
      await this.ready();
      const { route } = this;
      if (route === null) continue;
      const answer = await this.#ask(route, request);
      if (answer !== null) return answer;
    }
    throw new PeerError('gone', 'the connection was lost twice');
  }

  /** Tells what has no answer; nothing happens where it cannot be told. */
  tell(message: MessageOf<'received' | 'cancel' | 'bye'>): void {
    this.lastUsed = Date.now();
    if (this.route !== null) this.#channel.send(this.route, message);
  }

  /** Asks whether it lives; what it answers is heard. */
  ping(): void {
    this.lastPing = Date.now();
    const { route } = this;
    if (route !== null) this.#ask(route, { type: 'ping' }).catch(() => {});
  }

  close(): void {
    this.#drop(this.#out);
    this.#drop(this.#in);
  }

  /** Null where the connection was none any more. */
  async #ask(route: Route, request: Request): Promise<Answer | null> {
    this.lastUsed = Date.now();
    try {
      const answer = await this.#channel.request(route, request);
      this.heard();
      if (answer.type !== 'refused' || answer.code !== 'hello') return answer;
      this.lost(route);
      return null;
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error;
      if (this.route?.id === route.id) throw new PeerError('gone', error.message);
      return null;
    }
  }

  async #greet(): Promise<void> {
    const route = this.#channel.connect(this.address);
    let answer: Answer;
    try {
      answer = await this.#channel.request(route, { type: 'hello', ...this.#own });
    } catch (error) {
      route.close();
      // It may have greeted us meanwhile.
      if (this.route !== null) return;
      throw new PeerError('gone', error instanceof Error ? error.message : String(error));
    }
    const refusal = this.#refusal(answer);
    if (answer.type !== 'welcome' || refusal !== null) {
      route.close();
      throw new PeerError('refused', refusal ?? 'it does not answer a greeting');
    }
    this.#drop(this.#out);
    this.#out = route;
    this.#events.routed(route);
    this.#introduced(answer);
  }

  #refusal(answer: Answer): string | null {
    if (answer.type === 'refused') return answer.reason;
    if (answer.type !== 'welcome') return null;
    if (answer.address !== this.address) return `${answer.address} answers at ${this.address}`;
    return difference(this.#own, answer);
  }

  #introduced(identity: Identity): void {
    const isNewRun = this.#epoch !== null && this.#epoch !== identity.epoch;
    this.#epoch = identity.epoch;
    this.#endpoints = identity.endpoints;
    this.heard();
    if (isNewRun) this.#events.newRun();
  }

  #drop(route: Route | null): void {
    if (route === null) return;
    if (this.#out === route) this.#out = null;
    if (this.#in === route) this.#in = null;
    this.#events.unrouted(route);
    route.close();
  }
}
