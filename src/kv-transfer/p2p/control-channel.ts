// Carries control messages between instances over ZeroMQ: one ROUTER that all peers reach, one DEALER a peer that this
// instance reached first. It knows connections ("routes") and numbers requests; peers.ts knows who is at their end.

import { isIPv6 } from 'node:net';
import { Dealer, Router } from 'zeromq';
import { formatAddress } from '../../cluster/address.ts';
import { type CurveKeys, curveClient, curveServer } from '../../cluster/curve.ts';
import { zmqContext } from '../../cluster/zmq-context.ts';
import { ConfigError } from '../../errors.ts';
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

export interface ChannelHandlers {
  /** Everything but answers. */
  readonly message: (route: Route, message: Exclude<Message, Answer>) => void;
  /** This connection is over. */
  readonly down: (route: Route, reason: string) => void;
  /** Some connection to this instance has ended, and it is not said which. */
  readonly someoneLeft: () => void;
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
/** A connection that has been seen to end has ended for every part of the socket by then. */
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
  #malformed = 0;
  #isClosed = false;

  constructor(options: ChannelOptions, handlers: ChannelHandlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.#router = new Router({
      ...socketOptions(options.ip),
      // A message for someone who is gone is an error instead of nothing.
      mandatory: true,
      ...curveServer(options.keys),
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
      throw bindError(this.#options, error);
    }
    this.#router.events.on('disconnect', () => this.#someoneLeft());
    void this.#readRouter();
  }

  /** Twice: until the socket knows what its monitor has seen, what is written to the one who left is lost in silence. */
  #someoneLeft(): void {
    this.#handlers.someoneLeft();
    setTimeout(() => {
      if (!this.#isClosed) this.#handlers.someoneLeft();
    }, SETTLED_MS).unref();
  }

  /** How many messages were none. */
  get malformed(): number {
    return this.#malformed;
  }

  /** Begins a connection; what is written waits for it. `down` follows where nobody is there. */
  connect(address: string): Route {
    const socket = new Dealer({ ...socketOptions(address), ...curveClient(this.#options.keys) });
    const route = this.#dealerRoute(address, socket);
    const down = (reason: string) => {
      if (!this.#connected.has(route)) return;
      route.close();
      this.#rejectAll(route, `${address}: ${reason}`);
      this.#handlers.down(route, reason);
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

  /** Sends what has no answer; what cannot leave is lost, and `down` is called. */
  send(route: Route, message: Message): void {
    route.write(encodeMessage(message)).catch((error: unknown) => this.#unwritten(route, error));
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
      this.#read(route, more.length === 0 ? bytes : undefined);
    }
  }

  async #readDealer(socket: Dealer, route: Route): Promise<void> {
    for await (const [bytes, ...more] of socket) this.#read(route, more.length === 0 ? bytes : undefined);
  }

  #read(route: Route, bytes: Uint8Array | undefined): void {
    if (this.#isClosed) return;
    const read = decodeMessage(bytes ?? new Uint8Array());
    if (!read.isValid) {
      this.#malformed += 1;
      const seq = numberOf(bytes ?? new Uint8Array());
      this.send(route, { type: 'refused', seq, code: 'malformed', reason: read.why });
      return;
    }
    const { message } = read;
    if (!isAnswer(message)) this.#handlers.message(route, message);
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

  #unwritten(route: Route, error: unknown): void {
    if (this.#isClosed) return;
    const reason = error instanceof Error ? error.message : String(error);
    this.#rejectAll(route, reason);
    this.#handlers.down(route, reason);
  }

  #rejectAll(route: Route, reason: string): void {
    for (const [seq, { route: id }] of [...this.#pending]) {
      if (id === route.id) this.#settle(seq)?.reject(new NoAnswerError(reason));
    }
  }
}

function socketOptions(address: string) {
  return {
    context: zmqContext(),
    ipv6: isIPv6(address) || address.startsWith('['),
    linger: GOODBYE_MS,
    sendTimeout: 0,
    sendHighWaterMark: MAX_QUEUED,
    receiveHighWaterMark: MAX_QUEUED,
    maxMessageSize: MAX_MESSAGE_BYTES,
  };
}

function bindError({ ip, port }: ChannelOptions, error: unknown): ConfigError {
  const code = error instanceof Error && 'code' in error ? error.code : String(error);
  const param = 'kv-transfer-config';
  if (code === 'EADDRINUSE') {
    return new ConfigError(`kv_port ${port} of ${ip} is taken: give this instance another kv_port`, {
      param,
    });
  }
  if (code === 'EADDRNOTAVAIL') {
    return new ConfigError(`kv_ip ${ip} is no address of this machine: give one that it has`, { param });
  }
  return new ConfigError(`kv_ip ${ip} and kv_port ${port} cannot be listened on: ${code}`, {
    param,
    cause: error,
  });
}
