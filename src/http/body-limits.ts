// How many bytes the body of a request may have: more where it may hold images.

import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify';
import { PayloadTooLargeError } from '../errors.ts';
import { MAX_BYTES_OF_IMAGES } from '../util/image-source.ts';

const DEFAULT_BODY_LIMIT = 8 * 1024 * 1024;
/** All that make a prompt of a conversation. */
const PATHS_OF_IMAGES: ReadonlySet<string> = new Set([
  '/v1/chat/completions',
  '/v1/chat/completions/render',
  '/v1/responses',
  '/v1/responses/input_tokens',
  '/v1/messages',
  '/v1/messages/count_tokens',
  '/tokenize',
  '/invocations',
]);

interface BodyLimits {
  /** Of all routes; without it as many as a route needs. */
  readonly bodyLimit?: number | undefined;
  readonly addedBytes?: number | undefined;
}

/** For the routes that are added from now on. */
export function limitBodies(app: FastifyInstance, { bodyLimit, addedBytes = 0 }: BodyLimits): void {
  app.addHook('onRoute', (route) => {
    const needed = PATHS_OF_IMAGES.has(route.url) ? MAX_BYTES_OF_IMAGES : DEFAULT_BODY_LIMIT;
    route.bodyLimit = (bodyLimit ?? needed) + addedBytes;
  });
}

/** Fastify does not say how much would have been accepted. */
export function nameLimit(error: FastifyError, { routeOptions }: FastifyRequest): Error {
  if (error.code !== 'FST_ERR_CTP_BODY_TOO_LARGE') return error;
  return new PayloadTooLargeError(
    `The request body is larger than the ${routeOptions.bodyLimit} bytes that are accepted here`,
  );
}
