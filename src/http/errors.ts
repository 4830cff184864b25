// Errors on the wire: status, body and headers of every failure.

import { STATUS_CODES } from 'node:http';
import {
  EngineDeadError,
  InvalidRequestError,
  MalformedRequestError,
  NotReadyError,
  OverloadedError,
  SvcError,
  UnauthorizedError,
} from '../errors.ts';
import { shortened } from '../util/preview.ts';

/** Characters: more than any of our own messages has, whatever a chat template or a client puts into one. */
const MAX_MESSAGE = 4096;

/** The protocol's one shape for every failure; `code` is the HTTP status. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: number;
  };
}

const INTERNAL =
  'Internal server error: this is not the fault of the request; the log of the server says more';
const ENGINE_DEAD = 'The engine of this server has stopped and answers no more requests; its log says why';

export function errorBody(error: SvcError): ErrorBody {
  const message = shortened(publicMessage(error), MAX_MESSAGE);
  const param = error.param === null ? null : shortened(error.param);
  return { error: { message, type: error.type, param, code: error.status } };
}

/** Headers that the status requires. */
export function errorHeaders(error: SvcError): Readonly<Record<string, string>> {
  if (error instanceof UnauthorizedError) return { 'www-authenticate': 'Bearer' };
  if (error instanceof OverloadedError || error instanceof NotReadyError) {
    return { 'retry-after': String(error.retryAfter) };
  }
  return {};
}

/** Whatever was thrown, as an error with a status. Unknown errors become a plain 500. */
export function toSvcError(thrown: unknown): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const { code, statusCode } = fastifyFault(thrown);
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    return new MalformedRequestError(
      'Unsupported media type: send the body with Content-Type: application/json',
    );
  }
  if (code === 'FST_ERR_BAD_URL') return new MalformedRequestError('The path of the request is no valid URL');
  if (code === 'FST_ERR_CTP_INVALID_CONTENT_LENGTH') {
    return new MalformedRequestError('The body does not have the length that Content-Length names');
  }
  if (statusCode >= 400 && statusCode < 500) {
    return new InvalidRequestError(thrown instanceof Error ? thrown.message : 'The request is wrong');
  }
  return new SvcError(INTERNAL, { cause: thrown });
}

/** The raw answer to bytes that are no HTTP request: a refused parse has no reply object. */
export function rawErrorResponse(status: 400 | 408 | 431, message: string): string {
  const reason = STATUS_CODES[status];
  const body = JSON.stringify({ error: { message, type: reason, param: null, code: status } });
  return (
    `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json; charset=utf-8\r\n` +
    `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  );
}

/** A message that is not for clients stays in the log. */
function publicMessage(error: SvcError): string {
  if (error instanceof EngineDeadError) return ENGINE_DEAD;
  return error.isPublic ? error.message : INTERNAL;
}

/** Fastify's own errors carry a code and a status. */
function fastifyFault(thrown: unknown): { code: string; statusCode: number } {
  const none = { code: '', statusCode: 500 };
  if (!(thrown instanceof Error)) return none;
  const code = 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : none.code;
  if (!code.startsWith('FST_')) return none;
  const hasStatus = 'statusCode' in thrown && typeof thrown.statusCode === 'number';
  return { code, statusCode: hasStatus ? Number(thrown.statusCode) : none.statusCode };
}
