// Errors in the shapes of the protocols, and the way back from what an instance has said to a status.

import { describe, expect, it } from 'vitest';
import {
  BadGatewayError,
  EngineDeadError,
  InvalidRequestError,
  MalformedRequestError,
  MethodNotAllowedError,
  ModelOutputError,
  NotFoundError,
  NotReadyError,
  OverloadedError,
  PayloadTooLargeError,
  RequestTimeoutError,
  SvcError,
  UnauthorizedError,
} from '../../src/errors.ts';
import {
  errorBodyAt,
  messagesErrorEvent,
  responsesErrorEvent,
  statusOfMessageType,
  statusOfResponseCode,
} from '../../src/http/error-shapes.ts';
import { errorBody, errorHeaders, toSvcError } from '../../src/http/errors.ts';

const SOON = { retryAfter: 7 };

describe('an error', () => {
  it.each([
    [new InvalidRequestError('wrong'), 'invalid_request_error', 'invalid_prompt'],
    [new UnauthorizedError('wrong'), 'authentication_error', 'invalid_prompt'],
    [new NotFoundError('wrong'), 'not_found_error', 'invalid_prompt'],
    [new MethodNotAllowedError('wrong'), 'invalid_request_error', 'invalid_prompt'],
    [new PayloadTooLargeError('wrong'), 'request_too_large', 'invalid_prompt'],
    [new OverloadedError('wrong', SOON), 'rate_limit_error', 'rate_limit_exceeded'],
    [new BadGatewayError('wrong'), 'api_error', 'server_error'],
    [new NotReadyError('wrong', SOON), 'overloaded_error', 'overloaded'],
    [new RequestTimeoutError('wrong'), 'timeout_error', 'timeout'],
  ])('%s is a %s of /v1/messages and a %s of /v1/responses', (error, type, code) => {
    const body = { type: 'error', error: { type, message: 'wrong' } };
    for (const url of ['/v1/messages', '/v1/messages?beta=true', '/v1/messages/count_tokens']) {
      expect(errorBodyAt(url, error)).toEqual(body);
    }
    expect(messagesErrorEvent(error)).toBe(`event: error\ndata: ${JSON.stringify(body)}\n\n`);
    const event = { type: 'error', sequence_number: 3, code, message: 'wrong', param: null };
    expect(responsesErrorEvent(error, 3)).toBe(`event: error\ndata: ${JSON.stringify(event)}\n\n`);
    for (const url of ['/v1/responses', '/v1/messages-of-mine', '/other/v1/messages']) {
      expect(errorBodyAt(url, error)).toEqual(errorBody(error));
    }
  });

  it.each([
    ['authentication_error', 401],
    ['rate_limit_error', 429],
    ['api_error', 500],
    ['overloaded_error', 503],
    ['timeout_error', 504],
    ['invalid_request_error', 400],
    ['of another server', 400],
  ])('of /v1/messages that is a %s has the status %i', (type, status) => {
    expect(statusOfMessageType(type)).toBe(status);
  });

  it.each([
    ['rate_limit_exceeded', 429],
    ['server_error', 500],
    ['overloaded', 503],
    ['timeout', 504],
    ['invalid_prompt', 400],
    ['of another server', 400],
  ])('of /v1/responses that is a %s has the status %i', (code, status) => {
    expect(statusOfResponseCode(code)).toBe(status);
  });

  it('is told at bounded length, and the name of its field, too', () => {
    const long = 'x'.repeat(5000);
    expect(errorBody(new InvalidRequestError(long, { param: long })).error).toEqual({
      message: `${'x'.repeat(4096)}…`,
      type: 'BadRequestError',
      param: `${'x'.repeat(60)}…`,
      code: 400,
    });
  });

  it.each([
    [new SvcError('secret'), /^Internal server error: .*the log of the server says more$/],
    [new EngineDeadError('secret'), /^The engine of this server has stopped/],
    [new ModelOutputError('words for clients'), /^words for clients$/],
    [toSvcError(new TypeError('secret')), /^Internal server error/],
    [toSvcError('secret'), /^Internal server error/],
    [toSvcError(Object.assign(new Error('secret'), { code: 'ENOENT', statusCode: 404 })), /^Internal server/],
    [toSvcError(Object.assign(new Error('secret'), { code: 'FST_X', statusCode: 500 })), /^Internal server/],
    [toSvcError(Object.assign(new Error('secret'), { code: 'FST_X', statusCode: 302 })), /^Internal server/],
    [toSvcError(Object.assign(new Error('secret'), { code: 'FST_X' })), /^Internal server/],
    [toSvcError(Object.assign(new Error('a word'), { code: 'FST_X', statusCode: 415 })), /^a word$/],
  ])('tells clients what is for them (%#)', (error, message) => {
    expect(errorBody(error).error.message).toMatch(message);
  });

  it('has the headers that its status requires', () => {
    const errors = [
      new UnauthorizedError('a'),
      new OverloadedError('a', SOON),
      new NotReadyError('a', SOON),
      new NotFoundError('a'),
      new MalformedRequestError('a'),
    ];
    const soon = { 'retry-after': '7' };
    expect(errors.map(errorHeaders)).toEqual([{ 'www-authenticate': 'Bearer' }, soon, soon, {}, {}]);
  });
});
