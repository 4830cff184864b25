// GET /openapi.json: the routes and what they take. GET /docs: the same for people.

import type { FastifyInstance } from 'fastify';
import { DOCS_PAGE } from '../docs-page.ts';

/** The page runs its own script and asks its own server, nothing else. */
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'";

/** @param document is asked once all routes are there. */
export function docsRoutes(app: FastifyInstance, document: () => Promise<object>): void {
  app.get('/openapi.json', { config: { about: { summary: 'This document' } } }, () => document());
  app.get('/docs', { config: { about: { summary: 'This document as a page' } } }, async (_, reply) =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', POLICY).send(DOCS_PAGE),
  );
}
