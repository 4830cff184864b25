// Errors in the shapes of the protocols beside chat completions: events of /v1/responses; bodies and events of /v1/messages.

import type { SvcError } from '../errors.ts';
import { errorBody } from './errors.ts';

/** /v1/messages and what is below it. */
const MESSAGES_PATH = /^\/v1\/messages(?![^/?])/;
const RESPONSE_CODES: ReadonlyMap<number, string> = new Map([
  [429, 'rate_limit_exceeded'],
  [500, 'server_error'],
  [503, 'overloaded'],
  [504, 'timeout'],
]);
const MESSAGE_TYPES: ReadonlyMap<number, string> = new Map([
  [401, 'authentication_error'],
  [404, 'not_found_error'],
  [413, 'request_too_large'],
  [429, 'rate_limit_error'],
  [500, 'api_error'],
  [503, 'overloaded_error'],
  [504, 'timeout_error'],
]);
const OTHER_TYPE = 'invalid_request_error';
/** From this status on an error is none of the client. */
const OF_SERVER = 500;

/** The body of an error in the shape of the protocol that `url` belongs to. */
export function errorBodyAt(url: string, error: SvcError): object {
  return MESSAGES_PATH.test(url) ? messagesErrorBody(error) : errorBody(error);
}

/** The last event but one of a stream of /v1/responses that fails, or the last. */
export function responsesErrorEvent(error: SvcError, sequenceNumber: number): string {
  const { message, param } = errorBody(error).error;
  const code =
    RESPONSE_CODES.get(error.status) ?? (error.status < OF_SERVER ? 'invalid_prompt' : 'server_error');
  const event = { type: 'error', sequence_number: sequenceNumber, code, message, param };
  return `event: error\ndata: ${JSON.stringify(event)}\n\n`;
}

/** The HTTP status that the code of such an event stands for, 400 where it is none of ours. */
export function statusOfResponseCode(code: string): number {
  return keyOf(RESPONSE_CODES, code);
}

function messagesErrorBody(error: SvcError) {
  const type = MESSAGE_TYPES.get(error.status) ?? (error.status < OF_SERVER ? OTHER_TYPE : 'api_error');
  return { type: 'error', error: { type, message: errorBody(error).error.message } };
}

/** The last event of a stream of /v1/messages that fails. */
export function messagesErrorEvent(error: SvcError): string {
  return `event: error\ndata: ${JSON.stringify(messagesErrorBody(error))}\n\n`;
}

/** The HTTP status that the type of such an error stands for, 400 where it is none of ours. */
export function statusOfMessageType(type: string): number {
  return keyOf(MESSAGE_TYPES, type);
}

function keyOf(map: ReadonlyMap<number, string>, value: string): number {
  return [...map].find(([, candidate]) => candidate === value)?.[0] ?? 400;
}
