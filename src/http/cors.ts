// Lets pages of other origins call from a browser: headers on every answer, errors and streams included, and the preflight
// that a browser sends first, which needs no key.

import { fastifyCors } from '@fastify/cors';
import type { FastifyInstance } from 'fastify';
import type { CorsConfig } from '../config/cors-options.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS'];
/** Clients look at them: the one names a request in the log, the other says when to come again. */
const READABLE_HEADERS = ['X-Request-Id', 'Retry-After'];
/** Seconds for which a browser remembers a preflight. */
const MAX_AGE = 600;

export function useCors(
  app: FastifyInstance,
  { origins, methods, headers, allowsCredentials }: CorsConfig,
): void {
  // Browsers take no * together with credentials: the page's own origin is named in its place.
  const anyOrigin = allowsCredentials ? true : '*';
  app.register(fastifyCors, {
    origin: origins.includes('*') ? anyOrigin : [...origins],
    methods: methods.includes('*') ? METHODS : [...methods],
    // Without a list, repeat the headers that the page asks for: a * would not include Authorization.
    ...(!headers.includes('*') && { allowedHeaders: [...headers] }),
    exposedHeaders: READABLE_HEADERS,
    credentials: allowsCredentials,
    maxAge: MAX_AGE,
    // An OPTIONS that no browser has sent gets the same answer.
    strictPreflight: false,
  });
}
