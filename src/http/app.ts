// The HTTP application below all routes: body limit, JSON, keys, request ids, and one shape for every error.

import { randomUUID } from 'node:crypto';
import { type IncomingMessage, ServerResponse } from 'node:http';
import type { ServerOptions as TlsOptions } from 'node:https';
import type { Socket } from 'node:net';
import {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
} from 'fastify';
import { CORS_DEFAULTS, type CorsConfig } from '../config/cors-options.ts';
import {
  ExpectationError,
  MalformedRequestError,
  MethodNotAllowedError,
  UnknownPathError,
} from '../errors.ts';
import { shortened } from '../util/preview.ts';
import { AccessLog } from './access-log.ts';
import { ApiKeys, authorizationOf } from './auth.ts';
import { limitBodies, nameLimit } from './body-limits.ts';
import { closeWithConnection } from './close-with-connection.ts';
import { useCors } from './cors.ts';
import { errorBodyAt } from './error-shapes.ts';
import { errorHeaders, rawErrorResponse, toSvcError } from './errors.ts';
import { allowHalfClosed, askForAnswer, endAfterHalfClosed, whileHalfClosed } from './half-closed.ts';
import type { HttpMetrics } from './http-metrics.ts';
import { JsonParser } from './json-parser.ts';
import { lingering, wouldReset } from './lingering-close.ts';
import { DEFAULT_WRITE_TIMEOUT_MS } from './paced-writer.ts';

const RECEIVE_TIMEOUT_MS = 300_000;
const HEADERS_TIMEOUT_MS = 60_000;
/** Interval at which requests that take too long are looked for. */
const RECEIVE_SLACK_MS = 5000;
/** Time that a client has to read why its connection ends. */
const LINGER_MS = 2000;
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
/** Characters of a path that an error repeats. */
const MAX_SHOWN_PATH = 200;
/** Characters of the reason of a refusal that the log repeats. */
const MAX_REASON = 500;
/** Characters of a path that name one resource: ids are made of those of requests. */
const MAX_ID_IN_PATH = 512;
/** A usable X-Request-Id: it becomes part of ids, headers and logs. */
export const REQUEST_ID = /^[\x21-\x7e]{1,256}$/;

export interface HttpAppOptions {
  /** Guarded routes need one of these; without any key all routes are open. */
  readonly apiKeys?: readonly string[] | undefined;
  /** Pages that may call; without it all may. */
  readonly cors?: CorsConfig | undefined;
  /** Bytes that the body of a request may have; without it as many as its route needs. */
  readonly bodyLimit?: number | undefined;
  /** What somebody on the way may add to those. */
  readonly addedBytes?: number | undefined;
  /** A client that has not sent its whole request by then is stuck: 408. */
  readonly receiveTimeoutMs?: number | undefined;
  /** A client that takes nothing of its answer for this long is cut off. */
  readonly writeTimeoutMs?: number | undefined;
  /** Routes get bodies as bytes, unparsed, to pass them on as they came. */
  readonly keepsBodyBytes?: boolean | undefined;
  /** Gets one line a request, the reason of every refusal, and every internal error; nothing is logged without it. */
  readonly logger?: FastifyBaseLogger | undefined;
  /** Log a line for every request that is over; the default. */
  readonly logsAccess?: boolean | undefined;
  /** Optional prefix of every path: `/api`. */
  readonly rootPath?: string | null | undefined;
  /** Counts the requests. */
  readonly metrics?: HttpMetrics | undefined;
  /** Key and certificates; plain HTTP without. */
  readonly tls?: TlsOptions | null | undefined;
}

/** In the place of fastify's schema compilers, which take 50 ms of a start to load: zod checks what comes in. */
function noSchemas(): never {
  throw new Error('a route has a JSON schema for fastify: check its input with zod');
}

/** An application without routes; add them, then `listen`. */
export function createHttpApp(options: HttpAppOptions = {}): FastifyInstance {
  const { receiveTimeoutMs = RECEIVE_TIMEOUT_MS } = options;
  const serverOptions = {
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, receiveTimeoutMs),
    connectionsCheckingInterval: Math.min(RECEIVE_SLACK_MS, receiveTimeoutMs),
    // It is `checkHeads` that refuses.
    requireHostHeader: false,
  };
  const accessLog = new AccessLog(options.logsAccess);
  const app: FastifyInstance = fastify({
    ...(options.tls ? { https: { ...options.tls, ...serverOptions } } : { http: serverOptions }),
    requestTimeout: receiveTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // Requests that arrive while the server drains get the server's own error.
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_ID_IN_PATH },
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    genReqId: requestId,
    clientErrorHandler: (error, socket) => refuseBytes(error, socket, options.logger),
    rewriteUrl: ({ url = '/' }) => withoutRoot(url, options.rootPath ?? ''),
    frameworkErrors: sendError,
    ...(options.logger && { loggerInstance: options.logger, logController: accessLog }),
  });
  app.setErrorHandler<FastifyError>((error, request, reply) =>
    sendError(nameLimit(error, request), request, reply),
  );
  limitBodies(app, options);
  options.metrics?.observe(app);
  if (options.logger) accessLog.observe(app);
  allowHalfClosed(app.server);
  checkHeads(app);
  app.addHook('onRequest', async (_request, { raw }) => {
    closeWithConnection(raw);
    whileHalfClosed(raw, () => askForAnswer(raw));
    endAfterHalfClosed(raw);
  });
  cutOffStuckClients(app, options.writeTimeoutMs ?? DEFAULT_WRITE_TIMEOUT_MS);
  useJsonBodies(app, options.keepsBodyBytes ?? false);
  useCors(app, options.cors ?? CORS_DEFAULTS);
  const keys = new ApiKeys(options.apiKeys ?? []);
  // After the hook of the CORS plugin, so that a browser lets its page read a 401.
  app.addHook('onRequest', async ({ id, method, headers, routeOptions }, reply) => {
    reply.header('x-request-id', id);
    keys.check({ method, route: routeOptions.url, authorization: authorizationOf(headers) });
  });
  answerUnknownPaths(app);
  return app;
}

/** The client's own id where it is usable, so that its logs and ours can be joined. */
function requestId(message: IncomingMessage): string {
  const given = message.headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID().replaceAll('-', '');
}

/** `/api/v1/models?x` is `/v1/models?x` with the root path `/api`. */
function withoutRoot(url: string, rootPath: string): string {
  return url.startsWith(`${rootPath}/`) ? url.slice(rootPath.length) : url;
}

/** What node would refuse by itself, without a body, is refused in the shape of all errors. */
function checkHeads(app: FastifyInstance): void {
  const unmet = new WeakSet<IncomingMessage>();
  app.server.on('checkExpectation', (message: IncomingMessage, response: ServerResponse) => {
    unmet.add(message);
    app.server.emit('request', message, response);
  });
  app.addHook('onRequest', async ({ raw }) => {
    if (raw.httpVersion === '1.1' && raw.headers.host === undefined)
      throw new MalformedRequestError('The request has no Host header, which HTTP/1.1 requires');
    if (unmet.has(raw))
      throw new ExpectationError(
        `Expect: ${shortened(raw.headers.expect ?? '')} cannot be met: leave the header out, or send 100-continue`,
      );
  });
}

/** From the moment that an answer is there. Whoever writes to the response without fastify has a limit of their own (`PacedWriter`). */
function cutOffStuckClients(app: FastifyInstance, writeTimeoutMs: number): void {
  app.addHook('onSend', async (_request, { raw }) => {
    raw.setTimeout(writeTimeoutMs, () => raw.destroy());
    // Before Node's own listener, which goes on to the limit of idle connections, or to the next request, which has none.
    raw.prependOnceListener('finish', () => raw.socket?.setTimeout(0));
  });
}

/** Only application/json; parsed after the body is complete, so that a parse error keeps the connection. */
function useJsonBodies(app: FastifyInstance, keepsBytes: boolean): void {
  const parser = new JsonParser();
  app.addHook('onClose', () => parser.close());
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  );
  app.addHook('preValidation', async (request) => {
    if (!Buffer.isBuffer(request.body)) return;
    const encoding = request.headers['content-encoding'] ?? 'identity';
    if (encoding !== 'identity') {
      throw new MalformedRequestError(
        `Content-Encoding ${shortened(encoding)} is not supported: send the body as it is`,
      );
    }
    // Some clients name the type of a body that they do not send.
    if (!keepsBytes) request.body = request.body.length === 0 ? undefined : await parser.parse(request.body);
  });
}

/** 404 for an unknown path, 405 with the allowed methods for a known one. */
function answerUnknownPaths(app: FastifyInstance): void {
  const methods = new Map<string, string[]>();
  app.addHook('onRoute', (route) => {
    // Preflights may go anywhere.
    if (route.method === 'OPTIONS') return;
    methods.set(route.url, [...(methods.get(route.url) ?? []), ...[route.method].flat()]);
  });
  app.setNotFoundHandler(async (request, reply) => {
    const path = request.url.split('?')[0] ?? '';
    const shown = shortened(path, MAX_SHOWN_PATH);
    const pattern = [...methods.keys()].find((route) => matches(route, path));
    if (pattern === undefined) {
      throw new UnknownPathError(
        `There is nothing at ${shown}; this server has ${[...methods.keys()].join(', ')}`,
      );
    }
    const allowed = methods.get(pattern) ?? [];
    reply.header('allow', allowed.join(', '));
    throw new MethodNotAllowedError(`${shown} takes ${allowed.join(' or ')}, not ${request.method}`);
  });
}

/** `route` is a path, whose segments may be names such as `:id`, or a prefix of paths that ends in `*`. */
function matches(route: string, path: string): boolean {
  if (route.endsWith('*')) return path.startsWith(route.slice(0, -1));
  const segments = path.split('/');
  const names = route.split('/');
  return (
    names.length === segments.length &&
    names.every((name, index) => name === segments[index] || (name.startsWith(':') && segments[index] !== ''))
  );
}

function sendError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const error = toSvcError(thrown);
  // A client that leaves in the middle of its body is no fault of the server.
  if (request.raw.destroyed && !request.raw.complete)
    request.log.info('client left in the middle of its request');
  else if (error.status === 500) request.log.error({ err: thrown }, 'request failed');
  else if (error.status < 500)
    request.log.info(
      { status: error.status, reason: shortened(error.message, MAX_REASON) },
      'request refused',
    );
  // Closing at once would reset the connection while the client still writes its body: the answer would be lost.
  reply.removeHeader('connection');
  reply.code(error.status).headers(errorHeaders(error));
  const body = errorBodyAt(request.url, error);
  if (wouldReset(request.raw, reply.raw)) sendLingering(JSON.stringify(body), request, reply);
  else reply.send(body);
}

function sendLingering(text: string, { raw }: FastifyRequest, reply: FastifyReply): void {
  reply.headers({
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
  });
  reply.header('connection', 'close').send(lingering(text, raw));
}

/** Answers bytes that are not an HTTP request, or not a complete one in time. */
function refuseBytes(
  error: Error & { code?: string },
  socket: Socket,
  logger: FastifyBaseLogger | undefined,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering(socket)) {
    socket.destroy();
    return;
  }
  const [status, reason] = BYTES_REFUSALS.get(error.code ?? '') ?? [400, 'This is not a valid HTTP request'];
  logger?.info({ client: socket.remoteAddress, status, reason }, 'request refused');
  endWith(socket, rawErrorResponse(status, reason));
}

const BYTES_REFUSALS: ReadonlyMap<string, [status: 408 | 431, reason: string]> = new Map([
  ['HPE_HEADER_OVERFLOW', [431, 'The headers of the request are too large']],
  ['ERR_HTTP_REQUEST_TIMEOUT', [408, 'The request was not complete in time']],
]);

/** Node has a response object from the headers of a request on: the refused bytes are often the rest of that request. */
function isAnswering(socket: Socket): boolean {
  const answer: unknown = Reflect.get(socket, '_httpMessage');
  return answer instanceof ServerResponse && (answer.headersSent || answer.req.complete);
}

/** Closing at once would reset the connection while the client still writes: the answer would be lost. */
function endWith(socket: Socket, response: string): void {
  socket.end(response);
  const closing = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(closing));
}
