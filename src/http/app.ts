// The HTTP application that server and proxy put their routes into: body limit, JSON, keys, request ids, and one
// shape for every error.

import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
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
import {
  MalformedRequestError,
  MethodNotAllowedError,
  PayloadTooLargeError,
  UnknownPathError,
} from '../errors.ts';
import { AccessLog } from './access-log.ts';
import { ApiKeys } from './auth.ts';
import { errorBody, errorHeaders, rawErrorResponse, toSvcError } from './errors.ts';
import { parseJsonBody } from './json-body.ts';

/** 8 MB. */
export const DEFAULT_BODY_LIMIT = 8 * 1024 * 1024;
/** A client that has not sent its whole request by then is stuck. */
const REQUEST_TIMEOUT_MS = 300_000;
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
/** Characters of the reason of a refusal that the log repeats. */
const MAX_REASON = 500;
/** What an X-Request-Id may be: it goes into ids, headers and logs. */
export const REQUEST_ID = /^[\x21-\x7e]{1,256}$/;

export interface HttpAppOptions {
  /** Any of these opens /v1*; none leaves it open to everybody. */
  readonly apiKeys?: readonly string[] | undefined;
  /** Bytes a request body may have. */
  readonly bodyLimit?: number | undefined;
  /** Routes get bodies as bytes: whoever passes them on wants them as they came. */
  readonly keepsBodyBytes?: boolean | undefined;
  /** Gets one line a request, the reason of every refusal, and every internal error; nothing is logged without it. */
  readonly logger?: FastifyBaseLogger | undefined;
  /** Log a line for every request that is over; the default. */
  readonly logsAccess?: boolean | undefined;
  /** May stand in front of every path: `/api`. */
  readonly rootPath?: string | null | undefined;
  /** Key and certificates; plain HTTP without. */
  readonly tls?: TlsOptions | null | undefined;
}

/** An application without routes; add them, then `listen`. */
export function createHttpApp(options: HttpAppOptions = {}): FastifyInstance {
  const bodyLimit = options.bodyLimit ?? DEFAULT_BODY_LIMIT;
  const app: FastifyInstance = fastify({
    ...(options.tls && { https: options.tls }),
    bodyLimit,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // What comes in while the server drains is answered by the server's own words.
    return503OnClosing: false,
    genReqId: requestId,
    clientErrorHandler: (error, socket) => refuseBytes(error, socket, options.logger),
    rewriteUrl: ({ url = '/' }) => withoutRoot(url, options.rootPath ?? ''),
    frameworkErrors: (error, request, reply) => sendError(nameLimit(error, bodyLimit), request, reply),
    ...(options.logger && {
      loggerInstance: options.logger,
      logController: new AccessLog(options.logsAccess),
    }),
  });
  app.setErrorHandler<FastifyError>((error, request, reply) =>
    sendError(nameLimit(error, bodyLimit), request, reply),
  );
  useJsonBodies(app, options.keepsBodyBytes ?? false);
  const keys = new ApiKeys(options.apiKeys ?? []);
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
    const { method, url, headers } = request;
    keys.check({ method, url, route: request.routeOptions.url, authorization: headers.authorization });
  });
  answerUnknownPaths(app);
  return app;
}

/** The client's own id where it is usable, so that its logs and ours can be joined. */
function requestId(message: IncomingMessage): string {
  const given = message.headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID().replaceAll('-', '');
}

/** `/api/v1/models?x` is `/v1/models?x` behind the root path `/api`. */
function withoutRoot(url: string, rootPath: string): string {
  return url.startsWith(`${rootPath}/`) ? url.slice(rootPath.length) : url;
}

/** Only application/json; parsed after the body is complete, so that a parse error keeps the connection. */
function useJsonBodies(app: FastifyInstance, keepsBytes: boolean): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  );
  app.addHook('preValidation', async (request) => {
    if (!Buffer.isBuffer(request.body)) return;
    const encoding = request.headers['content-encoding'] ?? 'identity';
    if (encoding !== 'identity') {
      throw new MalformedRequestError(
        `Content-Encoding ${encoding} is not supported: send the body as it is`,
      );
    }
    if (!keepsBytes) request.body = parseJsonBody(request.body);
  });
}

/** 404 for a path that is nobody's, 405 with the methods that would do for one that is. */
function answerUnknownPaths(app: FastifyInstance): void {
  const methods = new Map<string, string[]>();
  app.addHook('onRoute', (route) => {
    methods.set(route.url, [...(methods.get(route.url) ?? []), ...[route.method].flat()]);
  });
  app.setNotFoundHandler(async (request, reply) => {
    const path = request.url.split('?')[0] ?? '';
    const pattern = [...methods.keys()].find((route) => matches(route, path));
    if (pattern === undefined) {
      throw new UnknownPathError(
        `There is nothing at ${path}; this server has ${[...methods.keys()].join(', ')}`,
      );
    }
    const allowed = methods.get(pattern) ?? [];
    reply.header('allow', allowed.join(', '));
    throw new MethodNotAllowedError(`${path} takes ${allowed.join(' or ')}, not ${request.method}`);
  });
}

/** `route` is a path, or a prefix of paths that ends in `*`. */
function matches(route: string, path: string): boolean {
  return route.endsWith('*') ? path.startsWith(route.slice(0, -1)) : path === route;
}

/** Fastify does not say how much would have been accepted. */
function nameLimit(error: FastifyError, bodyLimit: number): Error {
  if (error.code !== 'FST_ERR_CTP_BODY_TOO_LARGE') return error;
  return new PayloadTooLargeError(
    `The request body is larger than the ${bodyLimit} bytes that this server accepts`,
  );
}

function sendError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const error = toSvcError(thrown);
  // A client that leaves in the middle of its body is no fault of the server.
  if (request.raw.destroyed && !request.raw.complete)
    request.log.info('client left in the middle of its request');
  else if (error.status === 500) request.log.error({ err: thrown }, 'request failed');
  else if (error.status < 500)
    request.log.info({ status: error.status, reason: error.message.slice(0, MAX_REASON) }, 'request refused');
  // Closing at once would reset the connection while the client still writes its body: the answer would be lost.
  reply.removeHeader('connection');
  reply.code(error.status).headers(errorHeaders(error)).send(errorBody(error));
}

/** Bytes that are no HTTP request, or none that ends in time. */
function refuseBytes(
  error: Error & { code?: string },
  socket: Socket,
  logger: FastifyBaseLogger | undefined,
): void {
  const isAnswering = Reflect.get(socket, '_httpMessage') != null;
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering) {
    socket.destroy();
    return;
  }
  const [status, reason] = BYTES_REFUSALS.get(error.code ?? '') ?? [400, 'This is not a valid HTTP request'];
  logger?.info({ client: socket.remoteAddress, status, reason }, 'request refused');
  socket.end(rawErrorResponse(status, reason));
}

const BYTES_REFUSALS: ReadonlyMap<string, [status: 408 | 431, reason: string]> = new Map([
  ['HPE_HEADER_OVERFLOW', [431, 'The headers of the request are too large']],
  ['ERR_HTTP_REQUEST_TIMEOUT', [408, 'The request was not complete in time']],
]);
