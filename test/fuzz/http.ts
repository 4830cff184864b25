// Requests as no client should send them, to a server: whatever comes is answered 200 and right, or 4xx in the shape of errors,
// soon; and afterwards the server is as it was.

import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { z } from 'zod';
import { statusOfMessageType, statusOfResponseCode } from '../../src/http/error-shapes.ts';
import { drawBody, type FieldSchemas, FUZZ_ROUTES, type FuzzRoute, fieldsOf } from './http-bodies.ts';
import type { Fault, FuzzResult } from './loaders.ts';
import { type Draw, seededDraw } from './mutations.ts';

interface HttpFuzzOptions {
  /** `http://127.0.0.1:8000` */
  readonly url: string;
  readonly seed: number;
  /** Number of the first request. */
  readonly start?: number;
  readonly runs: number;
  /** Ends earlier after this time. */
  readonly seconds?: number;
}

/** Requests at the same time. */
const CONCURRENCY = 16;
/** An answer that takes longer hangs, however busy the machine is. */
const DEADLINE_MS = 60_000;

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const ErrorShape = z.strictObject({
  error: z.strictObject({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.int(),
  }),
});

/** Of /v1/messages. */
const MessagesErrorShape = z.strictObject({
  type: z.literal('error'),
  error: z.strictObject({ type: z.string(), message: z.string() }),
});

/** In a stream of /v1/responses. */
const ResponsesErrorShape = z.looseObject({ type: z.literal('error'), code: z.string() });

/** The HTTP status that an error stands for, in the shape of its protocol; null where it is none. */
function statusOf(error: unknown): number | null {
  const plain = ErrorShape.safeParse(error);
  if (plain.success) return plain.data.error.code;
  const ofMessages = MessagesErrorShape.safeParse(error);
  if (ofMessages.success) return statusOfMessageType(ofMessages.data.error.type);
  const ofResponses = ResponsesErrorShape.safeParse(error);
  return ofResponses.success ? statusOfResponseCode(ofResponses.data.code) : null;
}

/** Types of the last events of streams without `[DONE]`. */
const ENDS = new Set([
  'message_stop',
  'response.completed',
  'response.incomplete',
  'response.failed',
  'error',
]);
const Typed = z.looseObject({ type: z.string() });

/** Sends requests of all kinds, several at the same time. */
export async function fuzzHttp(options: HttpFuzzOptions): Promise<FuzzResult> {
  const { url, seed, start = 0, runs, seconds = Number.POSITIVE_INFINITY } = options;
  const end = performance.now() + seconds * 1000;
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENCY });
  const fields = fieldsOf(await (await fetch(`${url}/openapi.json`)).json());
  const faults: Fault[] = [];
  let [next, done, refused] = [start, 0, 0];
  const work = async (): Promise<void> => {
    while (next < start + runs && performance.now() < end) {
      const run = next++;
      const draw = seededDraw(seed * 1_000_003 + run);
      const route = FUZZ_ROUTES[draw(FUZZ_ROUTES.length)]!;
      const problem = await attempt(url, agent, route, fields, draw);
      done += 1;
      if (problem === 'refused') refused += 1;
      else if (problem !== null) faults.push({ target: `${route.method} ${route.path}`, run, problem });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  agent.destroy();
  const left = await whatIsLeft(url);
  if (left !== null) faults.push({ target: 'the server afterwards', run: start, problem: left });
  return { runs: done, refused, faults };
}

/** Null where the answer is right, `refused`, or what is wrong with it. */
async function attempt(
  url: string,
  agent: Agent,
  route: FuzzRoute,
  fields: ReadonlyMap<string, FieldSchemas>,
  draw: Draw,
): Promise<string | null> {
  const ofRoute = fields.get(route.path) ?? new Map();
  const body = route.method === 'GET' ? Buffer.alloc(0) : drawBody(route, ofRoute, draw);
  try {
    if (draw(6) === 0) return await rawProblem(url, rawRequest(route, body, draw), draw);
    const sent = { ...route, path: route.path + queryOf(draw) };
    return problemOf(route, await send(url, agent, sent, piecesOf(body, draw), headersOf(draw)));
  } catch (error) {
    return `${error instanceof Error ? error.message : error}: ${body.toString('utf8', 0, 500)}`;
  }
}

/** Most are right; the others are what clients and those between send. */
function headersOf(draw: Draw): Record<string, string> {
  const json = { 'content-type': 'application/json' };
  const odd: readonly Record<string, string>[] = [
    { 'content-type': 'text/plain' },
    {},
    { 'content-type': 'application/json; charset=latin1' },
    { ...json, 'content-encoding': 'gzip' },
    { ...json, 'x-request-id': 'a b' },
    { ...json, 'x-request-id': 'x'.repeat(5000) },
    { ...json, authorization: 'Bearer' },
    { ...json, 'x-svc-journal': '1' },
    { ...json, 'x-svc-caller': 'address:1', 'x-svc-proxy-token': 'x' },
    { ...json, accept: 'text/event-stream', 'x-forwarded-for': '::1' },
    { ...json, origin: 'null', 'access-control-request-method': 'POST' },
    { ...json, 'transfer-encoding': 'chunked' },
    { ...json, expect: '100-continue' },
  ];
  return draw(5) === 0 ? odd[draw(odd.length)]! : json;
}

/** No route knows a query: all are to be passed over. */
function queryOf(draw: Draw): string {
  const queries = [
    '?',
    '?stream=true&max_tokens=0',
    '?a=1&a=2&a[]=3&a[b]=4',
    '?__proto__=1&constructor[prototype]=2',
    '?%00%ff%zz&=&&==',
    '?a=%F0%9F&b=%ED%A0%80',
    '?/../../v1/models?model=tiny',
    `?${'a=b&'.repeat(1500)}`,
    `?${'x'.repeat(6000)}`,
  ];
  return draw(4) === 0 ? queries[draw(queries.length)]! : '';
}

/** A body as one piece, or as some, between any two bytes. */
function piecesOf(body: Buffer, draw: Draw): readonly Buffer[] {
  if (draw(4) > 0) return [body];
  const cuts = Array.from({ length: 1 + draw(5) }, () => draw(body.length + 1)).toSorted((a, b) => a - b);
  return [0, ...cuts].map((from, index) => body.subarray(from, cuts[index]));
}

/** As a chunked body has it. */
function chunked(pieces: readonly Buffer[], { extension = '', trailer = '' } = {}): Buffer {
  const chunks = pieces
    .filter(({ length }) => length > 0)
    .flatMap((piece) => [`${piece.length.toString(16)}${extension}\r\n`, piece, '\r\n']);
  return Buffer.concat([...chunks, `0\r\n${trailer}\r\n`].map((part) => Buffer.from(part)));
}

function send(
  url: string,
  agent: Agent,
  { method, path }: FuzzRoute,
  body: readonly Buffer[],
  headers: Record<string, string>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const isChunked = 'transfer-encoding' in headers || body.length > 1;
    const length = isChunked ? {} : { 'content-length': body[0]!.length };
    const options = { agent, method, headers: method === 'GET' ? headers : { ...headers, ...length } };
    const sent = httpRequest(`${url}${path}`, options, (response) => {
      whole(response).then(resolve, reject);
    });
    sent.setTimeout(DEADLINE_MS, () => sent.destroy(new Error(`no answer within ${DEADLINE_MS / 1000} s`)));
    sent.on('error', reject);
    if (method !== 'GET') for (const piece of body) sent.write(piece);
    sent.end();
  });
}

async function whole(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const { statusCode: status = 0, headers } = response;
  return { status, type: headers['content-type'] ?? '', body: Buffer.concat(chunks).toString() };
}

/** As `attempt`. */
function problemOf({ path }: FuzzRoute, { status, type, body }: Answer): string | null {
  if (status >= 500 || status < 200) return `status ${status}: ${body.slice(0, 500)}`;
  if (status >= 300) {
    const error = parsed(body);
    const isRight = path.startsWith('/v1/messages')
      ? MessagesErrorShape.safeParse(error).success
      : statusOf(error) === status;
    return isRight ? 'refused' : `an error of another shape: ${status} ${body.slice(0, 500)}`;
  }
  if (type.startsWith('text/event-stream')) return streamProblem(body);
  if (type.startsWith('application/json') && parsed(body) === undefined)
    return `no JSON: ${body.slice(0, 500)}`;
  return null;
}

function streamProblem(body: string): string | null {
  const data = body.split('\n').filter((line) => line.startsWith('data: '));
  const events = data
    .filter((line) => line !== 'data: [DONE]')
    .map((line) => [line, parsed(line.slice('data: '.length))] as const);
  const last = Typed.safeParse(events.at(-1)?.[1]);
  const hasEnd = last.success ? ENDS.has(last.data.type) : data.at(-1) === 'data: [DONE]';
  if (!hasEnd) return `a stream without an end: ${body.slice(-500)}`;
  const [wrong] = events.find(([, event]) => event === undefined || (statusOf(event) ?? 0) >= 500) ?? [];
  return wrong === undefined ? null : `an event of a stream: ${wrong.slice(0, 500)}`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Bytes of one or more requests, in which something is not as HTTP has it. */
function rawRequest({ method, path }: FuzzRoute, body: Buffer, draw: Draw): Buffer {
  const head = (fields: readonly string[], version = '1.1', target = path): string =>
    `${[`${method} ${target} HTTP/${version}`, 'Host: a', ...fields].join('\r\n')}\r\n\r\n`;
  const json = 'Content-Type: application/json';
  const length = `Content-Length: ${body.length}`;
  const right = Buffer.concat([Buffer.from(head([json, length])), body]);
  const pieces = piecesOf(body, draw);
  const inChunks = (chunks: Buffer, coding = 'Transfer-Encoding: chunked'): Buffer =>
    Buffer.concat([Buffer.from(head([json, coding])), chunks]);
  const kinds: readonly (() => Buffer)[] = [
    () => right,
    () => Buffer.concat([right, right, right]),
    () => right.subarray(0, draw(right.length)),
    () => Buffer.concat([Buffer.from(head([json, `Content-Length: ${body.length + 10}`])), body]),
    () => Buffer.concat([Buffer.from(head([json, length, `Content-Length: ${body.length + 1}`])), body]),
    () => Buffer.concat([Buffer.from(head([json, length, 'Transfer-Encoding: chunked'])), body]),
    () =>
      Buffer.concat([Buffer.from(head([json, 'Transfer-Encoding: chunked'])), Buffer.from('zz\r\n'), body]),
    () => inChunks(chunked(pieces)),
    () => inChunks(chunked(pieces, { extension: ';a="b"', trailer: 'X-After: a\r\n' })),
    () => inChunks(chunked(pieces, { extension: `;${'a'.repeat(20_000)}` })),
    () => inChunks(chunked(pieces, { trailer: `Content-Length: 1\r\nX-Long: ${'a'.repeat(20_000)}\r\n` })),
    () => inChunks(chunked(pieces).subarray(0, draw(body.length + 8))),
    () => inChunks(chunked(pieces), 'Transfer-Encoding: gzip, chunked'),
    () => inChunks(chunked(pieces), 'Transfer-Encoding: chunked, identity'),
    () => inChunks(Buffer.concat([Buffer.from('ffffffffffffffffff\r\n'), body])),
    () =>
      inChunks(
        Buffer.concat([Buffer.from(`${(body.length - 1).toString(16)}\n`), body, Buffer.from('\n0\n\n')]),
      ),
    () => Buffer.concat([Buffer.from(head([json, length], '1.1', `${path}?a=%00&\u00e9=\u0001`)), body]),
    () => Buffer.concat([Buffer.from(head([json, length], '1.1', `${path}#a?b`)), body]),
    () =>
      Buffer.concat([
        Buffer.from(head([json, length], '1.1', `http://b:1${path}?${'a'.repeat(20_000)}`)),
        body,
      ]),
    () => Buffer.concat([Buffer.from(head([json, 'Content-Length: -5'])), body]),
    () => Buffer.concat([Buffer.from(head([json, length], '1.0')), body]),
    () => Buffer.concat([Buffer.from(head([json, length], '9.9')), body]),
    () => Buffer.from(head([`X-Long: ${'a'.repeat(20_000)}`])),
    () => Buffer.from(head(Array.from({ length: 300 }, (_, index) => `X-${index}: a`))),
    () => Buffer.from(head(['X-Odd: \u0001\u007f'])),
    () => Buffer.from(head([json, length], '1.1', '/%zz/../v1')),
    () => Buffer.from(head([], '1.1', `/${'v1/'.repeat(3000)}`)),
    () => Buffer.from(`OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n`),
    () => Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01]),
    () => Buffer.from(`${head(['Connection: Upgrade', 'Upgrade: websocket'])}`),
  ];
  return kinds[draw(kinds.length)]!();
}

/** Sends bytes, then waits, shuts down its own side, or leaves. As `attempt`. */
async function rawProblem(url: string, bytes: Buffer, draw: Draw): Promise<string | null> {
  const { hostname, port } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  const leaves = draw(3) === 0;
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text;
  });
  // A server may close while something is still written.
  socket.on('error', () => {});
  socket.on('end', () => socket.end());
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await new Promise<void>((resolve) => {
    socket.once('close', () => resolve());
    socket.write(bytes, () => resolve());
  });
  if (leaves) socket.destroy();
  else socket.end();
  const late = Symbol('late');
  const outcome = await Promise.race([closed, timeout(late)]);
  socket.destroy();
  if (outcome === late)
    return `the connection is open after ${DEADLINE_MS / 1000} s: ${bytes.toString('latin1', 0, 300)}`;
  const failed = /^HTTP\/1\.1 5\d\d/m.exec(received);
  return failed === null
    ? null
    : `${failed[0]}: ${received.slice(0, 500)}; to ${bytes.toString('latin1', 0, 300)}`;
}

function timeout<T>(value: T): Promise<T> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(value), DEADLINE_MS).unref();
  });
}

/** What is still going on although nobody waits for it; null where the server is idle and well. */
async function whatIsLeft(url: string): Promise<string | null> {
  const deadline = performance.now() + DEADLINE_MS;
  let left = 'it does not answer';
  while (performance.now() < deadline) {
    const [health, metrics] = await Promise.all(
      ['/health', '/metrics'].map((path) => fetch(`${url}${path}`).catch(() => null)),
    );
    const text = (await metrics?.text()) ?? '';
    const counts = [...text.matchAll(/^svc:num_requests_(running|waiting)\S* (\d+)/gm)];
    const busy = counts.filter(([, , count]) => Number(count) > 0).map(([line]) => line);
    if (health?.status === 200 && counts.length > 1 && busy.length === 0) return null;
    left = busy.join(', ') || `/health answers ${health?.status}, and /metrics ${counts.length} counts`;
  }
  return left;
}
