// An instance of the proxy's protocol without an engine: it registers, answers, keeps the journal of streams, continues
// those of others, and gets into trouble at the moment that a test names. Many fit into one process.

import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Dealer } from 'zeromq';
import { z } from 'zod';
import { encodeRegistration, type RegistrationMessage } from '../../src/cluster/discovery-message.ts';
import { clientOptions, curveKeys } from '../../src/cluster/zmq.ts';
import { FakeAnswer, FakeBody } from './fake-answers.ts';

/** request: the body has come; head: the head has left; a number: so many events have left. */
export type Moment = 'request' | 'head' | number;

/** What happens to one request. */
export interface Trouble {
  readonly at: Moment;
  /**
   * reset: its connection breaks. die: the whole instance is gone without a word. stall: nothing comes any more.
   * cut: the answer ends too early, but in order. half: it ends within an event. shutdown, fault: the stream ends with an error of the
   * instance, 503 or 500. flood: an answer of 65 MiB. A number: the status that is answered in place of an answer.
   */
  readonly does: 'reset' | 'die' | 'stall' | 'cut' | 'half' | 'shutdown' | 'fault' | 'flood' | number;
}

export interface FakeInstanceOptions {
  readonly type: 'P' | 'D';
  /** `127.0.0.1:30001` */
  readonly discovery: string;
  /** What it says of itself beside its addresses; only these with `isPlain`. */
  readonly about?: Partial<RegistrationMessage>;
  /** It says no more than the three keys that every instance says, and keeps no journal. */
  readonly isPlain?: boolean;
  /** What it says of its model and adapter beside each stream. */
  readonly contents?: string;
  readonly secret?: string;
  readonly apiKey?: string;
  readonly heartbeatMs?: number;
  /** Milliseconds that a token takes. */
  readonly tokenMs?: number;
  /** 0 takes a free one. */
  readonly httpPort?: number;
}

export interface ReceivedRequest {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: FakeBody;
  /** Of its stream: those that the connection or its buffers have taken. */
  numEvents: number;
  /** The client has left before the end of the answer. */
  wasAborted: boolean;
}

const Cancel = z.object({ request_id: z.string() });
const NEVER = 2 ** 30;
let numStarted = 0;

export class FakeInstance {
  readonly requests: ReceivedRequest[] = [];
  /** Ids of transfers that it was told to forget. */
  readonly cancelled: string[] = [];
  /** The next request gets the first one. */
  readonly troubles: Trouble[] = [];
  readonly port: number;
  readonly #options: FakeInstanceOptions;
  readonly #server: Server;
  readonly #number = numStarted++;
  readonly #socket: Dealer;
  readonly #timer: NodeJS.Timeout;
  readonly #about: RegistrationMessage;
  state: 'ready' | 'draining' | 'gone' = 'ready';
  /** How often the proxy ended the connection; it is made anew each time. */
  numDisconnects = 0;
  load: RegistrationMessage['load'];

  private constructor(server: Server, options: FakeInstanceOptions) {
    this.#server = server;
    this.#options = options;
    const address = server.address();
    this.port = typeof address === 'object' && address !== null ? address.port : 0;
    const { type, discovery, isPlain = false, secret, about, heartbeatMs = 50 } = options;
    // Nobody listens there: fake ones hand over no blocks.
    const zmqAddress = `127.0.0.2:${this.port}`;
    const addresses = { type, http_address: this.httpAddress, zmq_address: zmqAddress } as const;
    this.#about = isPlain
      ? { ...addresses, ...about }
      : { ...addresses, epoch: `${process.pid}-${this.#number}`, model: 'fake', ...about };
    this.#socket = new Dealer({
      routingId: this.#about.zmq_address,
      // The goodbye leaves although the socket is closed.
      linger: 500,
      immediate: true,
      sendTimeout: 0,
      reconnectInterval: 20,
      ...clientOptions(curveKeys(secret ?? null)),
    });
    this.#socket.events.on('handshake', () => this.#beat());
    this.#socket.events.on('disconnect', () => {
      this.numDisconnects += 1;
    });
    this.#socket.connect(`tcp://${discovery}`);
    this.#timer = setInterval(() => this.#beat(), heartbeatMs);
  }

  static async start(options: FakeInstanceOptions): Promise<FakeInstance> {
    const server = createServer((request, response) => {
      instance.#answer(request, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve) => server.listen(options.httpPort ?? 0, '127.0.0.1', resolve));
    const instance = new FakeInstance(server, options);
    return instance;
  }

  get httpAddress(): string {
    return `127.0.0.1:${this.port}`;
  }

  get zmqAddress(): string {
    return this.#about.zmq_address;
  }

  /** Says that it takes no new requests. */
  drain(): void {
    this.state = 'draining';
    this.#beat();
  }

  /** It is still there, but says so no more. */
  fallSilent(): void {
    clearInterval(this.#timer);
    this.#socket.close();
  }

  /** Nobody is told: connections break, new ones are refused. */
  die(): void {
    this.fallSilent();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Says goodbye and is gone. */
  async close(): Promise<void> {
    if (!this.#socket.closed) {
      this.state = 'gone';
      this.#beat();
    }
    this.die();
  }

  #beat(): void {
    if (this.#socket.closed) return;
    const { isPlain = false } = this.#options;
    const live = isPlain ? {} : { state: this.state, ...(this.load && { load: this.load }) };
    this.#socket.send(encodeRegistration({ ...this.#about, ...live })).catch(() => {});
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { apiKey } = this.#options;
    if (apiKey !== undefined && request.headers.authorization !== `Bearer ${apiKey}`) {
      return refuse(response, 401);
    }
    switch (request.url) {
      case '/kv_transfer/cancel':
        this.cancelled.push(Cancel.parse(await json(request)).request_id);
        response.end('{}');
        return;
      case '/v1/models':
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ object: 'list', data: [{ id: 'fake', object: 'model' }] }));
        return;
      case '/tokenize':
        return this.#tokenize(request, response);
      case '/v1/completions':
      case '/v1/chat/completions':
        return this.#complete(request, response);
      default:
        refuse(response, 404);
    }
  }

  async #tokenize(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = await json(request);
    const { trouble } = this.#receive(request, response, FakeBody.parse(asked));
    if (trouble.at === 'request') return this.#befall(trouble, response);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ tokens: [1, 2], asked }));
  }

  #receive(
    { url: path = '', headers }: IncomingMessage,
    response: ServerResponse,
    body: FakeBody,
  ): { readonly received: ReceivedRequest; readonly trouble: Trouble } {
    const received: ReceivedRequest = { path, headers, body, numEvents: 0, wasAborted: false };
    this.requests.push(received);
    response.once('close', () => {
      received.wasAborted = !response.writableFinished;
    });
    return { received, trouble: this.troubles.shift() ?? { at: NEVER, does: 'stall' } };
  }

  async #complete(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parsed = FakeBody.safeParse(await json(request));
    if (!parsed.success) return refuse(response, 400);
    const { url: path = '', headers } = request;
    const { received, trouble } = this.#receive(request, response, parsed.data);
    if (trouble.at === 'request') return this.#befall(trouble, response);
    const requestId = String(headers['x-svc-answer-id'] ?? headers['x-request-id'] ?? 'none');
    // Instances say under which id they have answered.
    response.setHeader('x-request-id', String(headers['x-request-id']));
    const answer = new FakeAnswer(parsed.data, {
      isChat: path.includes('chat'),
      requestId,
      // Clocks differ.
      created: 1_700_000_000 + this.#number,
      turn: this.#number,
    });
    if (!answer.canResume) return refuse(response, 400);
    response.setHeader('x-fake-instance', String(this.#number));
    response.setHeader('access-control-allow-origin', '*');
    if (parsed.data.stream) return this.#stream(received, answer, trouble, response);
    const { tokenMs } = this.#options;
    if (tokenMs !== undefined) await sleep(tokenMs);
    const text = answer.whole();
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length });
    if (trouble.at !== 'head') {
      response.end(text);
      return;
    }
    response.write(text.slice(0, text.length / 2));
    return this.#befall(trouble, response);
  }

  async #stream(
    received: ReceivedRequest,
    answer: FakeAnswer,
    trouble: Trouble,
    response: ServerResponse,
  ): Promise<void> {
    const { headers, body } = received;
    const { isPlain = false, tokenMs, contents } = this.#options;
    if (contents !== undefined) response.setHeader('x-svc-contents', contents);
    const hasJournal = !isPlain && headers['x-svc-journal'] === '1';
    const isKnown = body.svc_resume !== undefined;
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    response.flushHeaders();
    if (trouble.at === 'head') return this.#befall(trouble, response);
    for (const { journal, data } of answer.events()) {
      if (tokenMs !== undefined && !isKnown) await sleep(tokenMs);
      if (response.destroyed) return;
      const comment =
        hasJournal && journal !== null ? `: ${journal.choice} ${journal.tokenIds.join()}\n` : '';
      const isTaken = response.write(`${comment}data: ${data}\n\n`);
      if (!isTaken) await caughtUp(response);
      received.numEvents += 1;
      if (trouble.at === received.numEvents) return this.#befall(trouble, response);
    }
    response.end('data: [DONE]\n\n');
  }

  async #befall({ does }: Trouble, response: ServerResponse): Promise<void> {
    if (typeof does === 'number') return refuse(response, does);
    if (does === 'flood') response.end(Buffer.alloc(65 * 2 ** 20, ' '));
    // Everything written before must arrive first: the proxy, which shares this event loop, reads it in its next turns.
    for (let turn = 0; turn < 4; turn += 1) await nextTurn();
    if (does === 'reset') response.socket?.resetAndDestroy();
    if (does === 'die') this.die();
    if (does === 'cut') response.end();
    if (does === 'half') response.write('data: {"id":', () => response.socket?.resetAndDestroy());
    if (does === 'fault') response.end(`data: ${errorText(500)}\n\ndata: [DONE]\n\n`);
    if (does === 'shutdown') response.end(`data: ${errorText(503)}\n\ndata: [DONE]\n\n`);
  }
}

/** Resolves when the reader has taken what was written, or has left. */
async function caughtUp(response: ServerResponse): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  await Promise.race([once(response, 'drain', { signal }), once(response, 'close', { signal })]);
  over.abort();
}

function refuse(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'application/json', 'x-refused': 'yes' });
  response.end(errorText(status));
}

function errorText(code: number): string {
  return JSON.stringify({ error: { message: `fake: ${code}`, type: 'FakeError', param: null, code } });
}
