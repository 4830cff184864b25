// The OpenAPI document of a server, made of its routes and of the schemas that check their requests.

import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { type ApiRoute, rememberRoutes } from '../http/api-paths.ts';
import { type JsonSchema, jsonSchemaOf } from '../util/json-schema.ts';
import { yieldTurn } from '../util/yield-turn.ts';

/** What a route says of itself; one that says nothing is in the document with its path. */
export interface RouteAbout {
  readonly summary: string;
  readonly body?: z.ZodType;
  /** Fields that it takes without effect, beside those of `body`. */
  readonly ignored?: Iterable<string>;
  readonly answer?: z.ZodType;
  /** With `stream: true` the answer is server-sent events. */
  readonly streams?: boolean;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly about?: RouteAbout;
  }
}

const errorAnswer = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.int(),
  }),
});

/** Remembers the routes that are added to `app` from now on. @returns what makes the document of them, once. */
export function describeRoutes(app: FastifyInstance, version: string): () => Promise<object> {
  const routes = rememberRoutes(app);
  let document: Promise<object> | null = null;
  return () => {
    document ??= describe(routes, version);
    return document;
  };
}

/** Schemas of large bodies take a few milliseconds each. */
async function describe(routes: readonly ApiRoute[], version: string): Promise<object> {
  const paths: Record<string, Record<string, object>> = {};
  for (const { path, method, config } of routes) {
    paths[path] = { ...paths[path], [method]: operation(config?.about) };
    await yieldTurn();
  }
  return { openapi: '3.1.0', info: { title: 'svc', version }, paths };
}

function operation(about: RouteAbout | undefined): object {
  const { summary, body, ignored = [], answer, streams = false } = about ?? {};
  const json = (schema: z.ZodType, others: Iterable<string> = []): object => ({
    'application/json': { schema: withIgnored(jsonSchemaOf(schema), others) },
  });
  const content = {
    ...(answer !== undefined && json(answer)),
    ...(streams && { 'text/event-stream': { schema: { type: 'string' } } }),
  };
  return {
    ...(summary !== undefined && { summary }),
    ...(body !== undefined && { requestBody: { required: true, content: json(body, ignored) } }),
    responses: {
      200: { description: 'The answer', ...(Object.keys(content).length > 0 && { content }) },
      default: { description: 'An error', content: json(errorAnswer) },
    },
  };
}

function withIgnored(schema: JsonSchema, names: Iterable<string>): object {
  if (schema.properties === undefined) return schema;
  const ignored = Object.fromEntries([...names].map((name) => [name, { description: 'Without effect' }]));
  return { ...schema, properties: { ...ignored, ...schema.properties } };
}
