// The answer to one client: head, bytes, end or error, with back-pressure and an eye on whether the client is still there.
// It writes past fastify, whose reply it takes over: bytes of instances go out as they came.

import type { FastifyReply } from 'fastify';
import type { SvcError } from '../errors.ts';
import { errorBody, errorHeaders } from '../http/errors.ts';
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

export class ClientReply {
  readonly #response: FastifyReply['raw'];
  readonly #id: string;
  readonly #isOwnId: boolean;
  readonly #slowMs: number;
  #hasBegun = false;
  #catchingUp: NodeJS.Timeout | null = null;

  /**
   * @param id of the request, where no instance gives it one
   * @param isOwnId the client knows its request by it: no other one will do
   */
  constructor(reply: FastifyReply, id: string, isOwnId: boolean, slowMs: number) {
    reply.hijack();
    this.#response = reply.raw;
    this.#id = id;
    this.#isOwnId = isOwnId;
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

  begin({ status, headers }: LegHead): void {
    this.#hasBegun = true;
    this.#response.socket?.setNoDelay(true);
    this.#response.writeHead(status, this.#passedOn(headers));
    this.#response.flushHeaders();
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
    this.#response.writeHead(status, { ...this.#passedOn(headers), 'content-length': body.length });
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
    const headers = { ...errorHeaders(error), ...type, 'x-request-id': this.#id };
    this.send({ status: error.status, headers }, Buffer.from(body));
  }

  #passedOn(headers: LegHead['headers']): Record<string, string | string[]> {
    const passed: Record<string, string | string[]> = {};
    for (const [name, value] of Object.entries(headers)) {
      if (value === undefined || HOP_BY_HOP.has(name)) continue;
      passed[name] = typeof value === 'string' ? value : [...value];
    }
    if (this.#isOwnId) passed['x-request-id'] = this.#id;
    return passed;
  }
}
