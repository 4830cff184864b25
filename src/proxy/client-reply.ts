// The answer to one client: head, bytes, end or error, with back-pressure and an eye on whether the client is still there.
// It writes past fastify, whose reply it takes over: bytes of instances go out as they came.

import type { FastifyReply } from 'fastify';
import type { SvcError } from '../errors.ts';
import { errorBody, errorHeaders } from '../http/errors.ts';
import { whileHalfClosed } from '../http/half-closed.ts';
import { WAITING } from '../http/sse.ts';
import type { LegHead } from './leg.ts';

/** They belong to one connection, not to the answer. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

type Headers = Record<string, string | string[]>;

export class ClientReply {
  readonly #response: FastifyReply['raw'];
  /** Headers of every answer, whoever gives it. */
  readonly #own: Headers;
  readonly #slowMs: number;
  #hasBegun = false;
  #catchingUp: NodeJS.Timeout | null = null;

  /** @param id by which the client knows its request */
  constructor(reply: FastifyReply, id: string, slowMs: number) {
    reply.header('x-request-id', id).hijack();
    this.#response = reply.raw;
    this.#own = texts(reply.getHeaders());
    this.#slowMs = slowMs;
  }

  /** Some part of the answer has left: its status cannot change any more. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  get isGone(): boolean {
    return this.#response.destroyed;
  }

  get status(): number {
    return this.#response.statusCode;
  }

  /** Calls once: `onEnd(true)` when the whole answer was taken, `onEnd(false)` when the client has left before. */
  onceClosed(onEnd: (isComplete: boolean) => void): void {
    const response = this.#response;
    const close = (): void => {
      if (this.#catchingUp !== null) clearTimeout(this.#catchingUp);
      onEnd(response.writableFinished);
    };
    // A client may have left while its body was being read.
    if (response.destroyed) close();
    else response.once('close', close);
  }

  /** @param hasWholeEvents nothing that is written ends within an event: comments may come in between */
  begin({ status, headers }: LegHead, hasWholeEvents: boolean): void {
    this.#hasBegun = true;
    this.#response.socket?.setNoDelay(true);
    this.#response.writeHead(status, { ...passedOn(headers), ...this.#own });
    this.#response.flushHeaders();
    if (hasWholeEvents) whileHalfClosed(this.#response, () => this.#comment());
  }

  #comment(): void {
    if (!this.#response.writableEnded) this.#response.write(WAITING);
  }

  /** False: the client is behind; `onceCaughtUp` tells when it is not. */
  write(bytes: Buffer): boolean {
    return this.#response.write(bytes);
  }

  onceCaughtUp(resume: () => void): void {
    if (this.#catchingUp !== null) return;
    this.#catchingUp = setTimeout(() => this.#response.destroy(), this.#slowMs).unref();
    this.#response.once('drain', () => {
      if (this.#catchingUp !== null) clearTimeout(this.#catchingUp);
      this.#catchingUp = null;
      resume();
    });
  }

  end(): void {
    this.#response.end();
  }

  /** A whole answer. */
  send({ status, headers }: LegHead, body: Buffer): void {
    this.#hasBegun = true;
    const length = { 'content-length': body.length };
    this.#response.writeHead(status, { ...passedOn(headers), ...this.#own, ...length });
    this.#response.end(body);
  }

  /** In front of the first byte a status, behind it an event of the stream. */
  fail(error: SvcError): void {
    if (this.isGone || this.#response.writableEnded) return;
    const body = JSON.stringify(errorBody(error));
    if (this.#hasBegun) {
      this.#response.end(`data: ${body}\n\ndata: [DONE]\n\n`);
      return;
    }
    const type = { 'content-type': 'application/json; charset=utf-8' };
    this.send({ status: error.status, headers: { ...errorHeaders(error), ...type } }, Buffer.from(body));
  }
}

/** Whether a page may read the answer is the proxy's to say, whatever the instance says. */
function passedOn(headers: LegHead['headers']): Headers {
  const isPassedOn = ([name]: [string, unknown]): boolean =>
    !HOP_BY_HOP.has(name) && !name.startsWith('access-control-');
  return Object.fromEntries(Object.entries(texts(headers)).filter(isPassedOn));
}

function texts(headers: Readonly<Record<string, number | string | readonly string[] | undefined>>): Headers {
  const written: Headers = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) written[name] = typeof value === 'object' ? [...value] : String(value);
  }
  return written;
}
