// The answer to one client: head, bytes, end or error, with back-pressure. It takes the reply over from fastify and writes to
// the socket itself, so that the bytes of instances leave as they came.

import type { FastifyReply } from 'fastify';
import type { SvcError } from '../errors.ts';
import { errorBodyAt } from '../http/error-shapes.ts';
import { errorHeaders } from '../http/errors.ts';
import { whileHalfClosed } from '../http/half-closed.ts';
import { PacedWriter } from '../http/paced-writer.ts';
import { STREAM_HEADERS, WAITING } from '../http/sse.ts';
import type { EndpointAdapter } from './endpoints/endpoint.ts';
import { CONTENTS_HEADER, type ResponseHead } from './upstream-request.ts';

/** Headers of one connection, and what instances tell the proxy alone: no part of the answer. */
const NOT_PASSED_ON = new Set([
  CONTENTS_HEADER,
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** What a client must take of a whole answer before it counts as slow. */
const PIECE_BYTES = 64 * 1024;

type Headers = Record<string, string | string[]>;

export class ClientResponse {
  readonly #response: FastifyReply['raw'];
  /** Headers of every answer: the id and what CORS needs. */
  readonly #own: Headers;
  readonly #writer: PacedWriter;
  #hasBegun = false;
  /** Of a stream: whether each write ends with an event, so that something may be written between two. */
  hasWholeEvents = true;
  /** The head of a stream has left before there was anything to tell. */
  #isWaiting = false;
  /** Something has left since the silence was last looked at. */
  #hasWritten = false;
  #silence: NodeJS.Timeout | undefined;

  /**
   * @param id by which the client knows its request.
   * @param slowMs a client that takes nothing for so long is cut off.
   */
  constructor(reply: FastifyReply, id: string, slowMs: number) {
    reply.header('x-request-id', id).hijack();
    this.#response = reply.raw;
    this.#own = texts(reply.getHeaders());
    this.#writer = new PacedWriter(reply.raw, slowMs);
  }

  /** Some part of the answer has left. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** The status has left. */
  get hasHead(): boolean {
    return this.#hasBegun || this.#isWaiting;
  }

  /** The status has left, and nothing of the answer. */
  get isWaiting(): boolean {
    return this.#isWaiting && !this.#hasBegun;
  }

  /** Of a stream: comments break the silence before its first event and between two, each time it has lasted so long. */
  breakSilence(afterMs: number): void {
    // A client may have left while its body was read: nothing would tell the timer to end.
    if (!this.#writer.isOpen) return;
    this.#silence = setInterval(() => {
      if (!this.#hasWritten) this.#comment();
      this.#hasWritten = false;
    }, afterMs).unref();
    this.#response.once('close', () => clearInterval(this.#silence));
  }

  #comment(): void {
    if (!this.hasHead) {
      this.#writeHead(200, { ...STREAM_HEADERS });
      this.#isWaiting = true;
    }
    if (this.hasWholeEvents) this.#writer.write(WAITING);
  }

  begin({ status, headers }: ResponseHead): void {
    this.#hasBegun = true;
    if (!this.#isWaiting) this.#writeHead(status, passedOn(headers));
    whileHalfClosed(this.#response, () => this.#comment());
  }

  #writeHead(status: number, headers: Headers): void {
    this.#response.socket?.setNoDelay(true);
    this.#response.writeHead(status, { ...headers, ...this.#own });
    this.#response.flushHeaders();
  }

  /** False: wait for `drained` before the next bytes. */
  write(bytes: Buffer): boolean {
    this.#hasWritten = true;
    return this.#writer.write(bytes);
  }

  drained(): Promise<void> {
    return this.#writer.drained();
  }

  end(): void {
    clearInterval(this.#silence);
    this.#writer.end();
  }

  /** A whole answer: its last piece leaves when the client has caught up with the others. */
  async send({ status, headers }: ResponseHead, body: Buffer): Promise<void> {
    this.#hasBegun = true;
    clearInterval(this.#silence);
    const length = { 'content-length': body.length };
    this.#response.writeHead(status, { ...passedOn(headers), ...this.#own, ...length });
    let at = 0;
    for (; body.length - at > PIECE_BYTES; at += PIECE_BYTES) {
      if (!this.#writer.write(body.subarray(at, at + PIECE_BYTES))) await this.#writer.drained();
    }
    this.#writer.end(body.subarray(at));
  }

  /** Before the first byte an error is a status, after it an event of the stream. */
  async fail(error: SvcError, endpoint: EndpointAdapter, numEvents: number): Promise<void> {
    if (!this.#writer.isOpen) return;
    clearInterval(this.#silence);
    if (this.hasHead) {
      const failure = endpoint.failure(error, numEvents);
      this.#writer.end(this.hasWholeEvents ? failure : `\n\n${failure}`);
      return;
    }
    const type = { 'content-type': 'application/json; charset=utf-8' };
    const head = { status: error.status, headers: { ...errorHeaders(error), ...type } };
    await this.send(head, Buffer.from(JSON.stringify(errorBodyAt(endpoint.path, error))));
  }
}

/** Without what belongs to the connection, and without CORS headers: those of the proxy hold. */
function passedOn(headers: ResponseHead['headers']): Headers {
  const isPassedOn = ([name]: [string, unknown]): boolean =>
    !NOT_PASSED_ON.has(name) && !name.startsWith('access-control-');
  return Object.fromEntries(Object.entries(texts(headers)).filter(isPassedOn));
}

function texts(headers: Readonly<Record<string, number | string | readonly string[] | undefined>>): Headers {
  const written: Headers = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) written[name] = typeof value === 'object' ? [...value] : String(value);
  }
  return written;
}
