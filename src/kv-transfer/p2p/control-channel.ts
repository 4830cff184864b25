// Carries control messages between instances over ZeroMQ: one ROUTER that all peers connect to, and one DEALER for each peer
// that this instance connected to. It knows connections ("routes") and numbers requests, but not who is at the other end.

import { isIPv6 } from 'node:net';
import { Dealer, Router } from 'zeromq';
import { formatAddress } from '../../cluster/address.ts';
import { type CurveKeys, clientOptions, serverOptions } from '../../cluster/zmq.ts';
import { messageOf } from '../../errors.ts';
import { controlAddressError } from './control-address.ts';
import {
  type Answer,
  decodeMessage,
  encodeMessage,
  isAnswer,
  MAX_MESSAGE_BYTES,
  type Message,
  numberOf,
  type Request,
} from './messages.ts';

/** One connection to another instance, in either direction. */
export interface Route {
  /** Equal for all messages of one connection. */
  readonly id: string;
  /** Throws where the other end is not there. */
  write(bytes: Uint8Array): Promise<void>;
  close(): void;
}

interface ChannelHandlers {
  /** Gets everything but answers. */
  readonly onMessage: (route: Route, message: Exclude<Message, Answer>) => void;
  /** Gets what was wrong with a message, which has been refused. */
  readonly onMalformed: (route: Route, why: string) => void;
  /** This connection is over. */
  readonly onDown: (route: Route) => void;
  /** Some connection to this instance has ended; ZeroMQ does not say which. */
  readonly onDisconnect: () => void;
}

export interface ChannelOptions {
  readonly ip: string;
  readonly port: number;
  readonly keys: CurveKeys | null;
  /** Milliseconds. */
  readonly answerDeadline: number;
}

/** Why there is no answer. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
}

interface Pending {
  readonly route: string;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: NoAnswerError) => void;
  readonly timer: NodeJS.Timeout;
}

/** Messages that may wait for one slow peer. */
const MAX_QUEUED = 4096;
/** By then every part of the socket knows that a connection has ended. */
const SETTLED_MS = 100;
/** How long the last message of a connection may take to leave. */
const GOODBYE_MS = 100;

export class ControlChannel {
  readonly #router: Router;
  readonly #options: ChannelOptions;
  readonly #handlers: ChannelHandlers;
  readonly #pending = new Map<number, Pending>();
  readonly #connected = new Set<Route>();
  #nextSeq = 0;
  #isClosed = false;

  constructor(options: ChannelOptions, handlers: ChannelHandlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.#router = new Router({
      ...socketOptions(options.ip),
      // A message to an instance that is gone is an error, and not lost in silence.
      mandatory: true,
      ...serverOptions(options.keys),
    });
  }

  /**
   * Other instances can connect from now on.
   * @throws ConfigError where the address is not of this machine or the port is taken; the channel is closed then.
   */
  async listen(): Promise<void> {
    try {
      await this.#router.bind(`tcp://${formatAddress(this.#options)}`);
    } catch (error) {
      this.#isClosed = true;
      this.#router.close();
      throw controlAddressError(this.#options, error);
    }
    this.#router.events.on('disconnect', () => this.#disconnected());
    void this.#readRouter();
  }

  /** Begins a connection; messages wait for it. `onDown` follows where nobody is there. */
  connect(address: string): Route {
    const socket = new Dealer({ ...socketOptions(address), ...clientOptions(this.#options.keys) });
    const route = this.#dealerRoute(address, socket);
    const down = (reason: string) => {
      if (!this.#connected.has(route)) return;
      this.drop(route, `${address}: ${reason}`);
      this.#handlers.onDown(route);
    };
    socket.events.on('connect:retry', () => down('nobody is there'));
    socket.events.on('disconnect', () =>
      down('the connection was closed, by the other instance or for want of the secret'),
    );
    socket.connect(`tcp://${address}`);
    this.#connected.add(route);
    void this.#readDealer(socket, route);
    return route;
  }

  /** Sends a message without an answer; one that cannot leave is lost, and `onDown` is called. */
  send(route: Route, message: Message): void {
    route.write(encodeMessage(message)).catch((error: unknown) => {
      if (this.#isClosed) return;
      this.#rejectAll(route, messageOf(error));
      this.#handlers.onDown(route);
    });
  }

  /**
   * Sends and waits for the answer, which may be a refusal.
   * @throws NoAnswerError after the deadline, or where the connection is over.
   */
  request(route: Route, request: Request): Promise<Answer> {
    this.#nextSeq = (this.#nextSeq + 1) % 2 ** 32;
    const seq = this.#nextSeq;
    return new Promise((resolve, reject) => {
      const { answerDeadline } = this.#options;
      const late = () =>
        this.#settle(seq)?.reject(new NoAnswerError(`no answer within ${answerDeadline} ms`));
      const timer = setTimeout(late, answerDeadline);
      this.#pending.set(seq, { route: route.id, resolve, reject, timer });
      this.send(route, { ...request, seq });
    });
  }

  /** Ends a connection: nobody waits for answers over it any more. */
  drop(route: Route, reason: string): void {
    route.close();
    this.#rejectAll(route, reason);
  }

  /** Resolves when the port is free. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const route of [...this.#connected]) route.close();
    for (const seq of [...this.#pending.keys()]) {
      this.#settle(seq)?.reject(new NoAnswerError('this instance is closing'));
    }
    // ZeroMQ closes the listener on a thread of its own, and says so.
    const isFree = new Promise<void>((resolve) => {
      this.#router.events.on('end', () => resolve());
      setTimeout(resolve, GOODBYE_MS * 2);
    });
    this.#router.close();
    await isFree;
  }

  #dealerRoute(address: string, socket: Dealer): Route {
    const route: Route = {
      id: `to ${address} ${this.#connected.size} ${this.#nextSeq}`,
      write: async (bytes) => socket.send(bytes),
      close: () => {
        if (this.#connected.delete(route)) socket.close();
      },
    };
    return route;
  }

  async #readRouter(): Promise<void> {
    for await (const [identity, bytes, ...more] of this.#router) {
      if (identity === undefined) continue;
      const route: Route = {
        id: `from ${identity.toString('hex')}`,
        write: async (answer) => this.#router.send([identity, answer]),
        close: () => {},
      };
      this.#receive(route, bytes, more);
    }
  }

  async #readDealer(socket: Dealer, route: Route): Promise<void> {
    for await (const [bytes, ...more] of socket) this.#receive(route, bytes, more);
  }

  /** A message has one part. */
  #receive(route: Route, first: Uint8Array | undefined, more: readonly Uint8Array[]): void {
    if (this.#isClosed) return;
    const bytes = first === undefined || more.length > 0 ? new Uint8Array() : first;
    const read = decodeMessage(bytes);
    if (!read.isValid) {
      this.send(route, { type: 'refused', seq: numberOf(bytes), code: 'malformed', reason: read.why });
      this.#handlers.onMalformed(route, read.why);
      return;
    }
    const { message } = read;
    if (!isAnswer(message)) this.#handlers.onMessage(route, message);
    else if (message.seq !== null && this.#pending.get(message.seq)?.route === route.id) {
      this.#settle(message.seq)?.resolve(message);
    }
  }

  #settle(seq: number): Pending | undefined {
    const pending = this.#pending.get(seq);
    this.#pending.delete(seq);
    clearTimeout(pending?.timer);
    return pending;
  }

  /** Twice: until the socket knows what its monitor has seen, it still drops messages to that instance in silence. */
  #disconnected(): void {
    this.#handlers.onDisconnect();
    setTimeout(() => {
      if (!this.#isClosed) this.#handlers.onDisconnect();
    }, SETTLED_MS).unref();
  }

  #rejectAll(route: Route, reason: string): void {
    for (const [seq, { route: id }] of [...this.#pending]) {
      if (id === route.id) this.#settle(seq)?.reject(new NoAnswerError(reason));
    }
  }
}

function socketOptions(address: string) {
  return {
    ipv6: isIPv6(address) || address.startsWith('['),
    linger: GOODBYE_MS,
    sendTimeout: 0,
    sendHighWaterMark: MAX_QUEUED,
    receiveHighWaterMark: MAX_QUEUED,
    maxMessageSize: MAX_MESSAGE_BYTES,
  };
}
