// GET /openapi.json: the routes and what they take. GET /docs: the same for people.

import { readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';

/** The page runs its own script and asks its own server, nothing else. */
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'";

/** @param document is asked once all routes are there. */
export function docsRoutes(app: FastifyInstance, document: () => Promise<object>): void {
  const page = readFileSync(new URL('../docs.html', import.meta.url), 'utf8');
  app.get('/openapi.json', { config: { about: { summary: 'This document' } } }, () => document());
  app.get('/docs', { config: { about: { summary: 'This document as a page' } } }, async (_, reply) =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', POLICY).send(page),
  );
}
