// Routes that any instance answers alike: which models there are, token ids, the document of the API, which is cut to what
// the proxy has.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { NotReadyError } from '../../errors.ts';
import type { ApiRoute } from '../../http/api-paths.ts';
import { ClientGoneError } from '../../http/in-flight.ts';
import { parseJson } from '../../util/parse-json.ts';
import { ClientResponse } from '../client-response.ts';
import { type Instance, UpstreamFailure } from '../instance.ts';
import { keyRefused } from '../instance-key.ts';
import type { ProxyContext } from '../proxy-context.ts';
import { NO_ROOM, type ResponseHead, UpstreamRequest } from '../upstream-request.ts';

const MAX_INSTANCES_ASKED = 3;
/** Milliseconds without a byte after which an instance is given up. */
const MAX_SILENCE = 30_000;

const ROUTES = [
  { method: 'GET', path: '/v1/models' },
  // A model's name may hold slashes.
  { method: 'GET', path: '/v1/models/*' },
  { method: 'POST', path: '/tokenize' },
  { method: 'POST', path: '/detokenize' },
  { method: 'GET', path: '/tokenizer_info' },
  { method: 'GET', path: '/docs' },
] as const;

interface Answer {
  readonly head: ResponseHead;
  readonly body: Buffer;
}

/** @param routes all of the proxy, as far as they are in an API's document. */
export function anyInstanceRoutes(
  app: FastifyInstance,
  context: ProxyContext,
  routes: readonly ApiRoute[],
): void {
  const add = (method: 'GET' | 'POST', url: string, change = (answer: Answer): Answer => answer): void => {
    app.route({
      method,
      url,
      handler: async (request, reply) => {
        context.checkOpen();
        try {
          const { head, body } = change(
            await ask(context, method, request, inFlight(context, request, reply)),
          );
          await new ClientResponse(reply, request.id, context.deadlines.slowClient).send(head, body);
        } catch (error) {
          if (!(error instanceof ClientGoneError)) throw error;
          reply.hijack();
        }
      },
    });
  };
  for (const { method, path } of ROUTES) add(method, path);
  add('GET', '/openapi.json', ({ head, body }) => ({ head, body: withRoutes(body, routes) }));
}

const apiDocument = z.looseObject({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) });

/** The document of an instance without what the proxy has not; anything else as it is. */
function withRoutes(body: Buffer, routes: readonly ApiRoute[]): Buffer {
  const { data } = apiDocument.safeParse(parseJson(body.toString()));
  if (data === undefined) return body;
  const has = new Set(routes.map(({ method, path }) => `${method} ${path}`));
  const paths = Object.entries(data.paths).flatMap(([path, operations]) => {
    const kept = Object.entries(operations).filter(([method]) => has.has(`${method} ${path}`));
    return kept.length === 0 ? [] : [[path, Object.fromEntries(kept)] as const];
  });
  return Buffer.from(JSON.stringify({ ...data, paths: Object.fromEntries(paths) }));
}

/** Counted among what the proxy has in flight. Aborted when the client has left, when it takes too long and when the proxy stops. */
function inFlight(
  { inFlight, config }: ProxyContext,
  { id }: FastifyRequest,
  reply: FastifyReply,
): AbortSignal {
  const request = new AbortController();
  inFlight.add(request, reply, { requestId: id, timeoutMs: config.requestTimeout * 1000 });
  return request.signal;
}

async function ask(
  context: ProxyContext,
  method: 'GET' | 'POST',
  request: FastifyRequest,
  signal: AbortSignal,
): Promise<Answer> {
  const body = Buffer.isBuffer(request.body) ? request.body : null;
  const authorization = context.instanceKey.headerFor(request.headers);
  const headers = {
    ...(authorization !== undefined && { authorization }),
    ...(body !== null && { 'content-type': 'application/json' }),
  };
  const instances = context.instances.ready(({ mayDecode }) => mayDecode).toSorted(byTrust);
  let refusal: Answer | null = null;
  for (const instance of instances.slice(0, MAX_INSTANCES_ASKED)) {
    signal.throwIfAborted();
    try {
      const upstream = new UpstreamRequest(instance, { method, path: request.url, headers, body });
      upstream.maxSilence = MAX_SILENCE;
      signal.addEventListener('abort', () => upstream.cancel(signal.reason), { once: true });
      const head = await upstream.head;
      const answer = { head, body: await upstream.whole() };
      if (context.instanceKey.isRefused(instance, head.status)) throw keyRefused(instance);
      if (!NO_ROOM.has(head.status)) return answer;
      refusal = answer;
    } catch (error) {
      if (!(error instanceof UpstreamFailure)) throw error;
    }
  }
  if (refusal !== null) return refusal;
  throw new NotReadyError(`No instance is there to answer ${request.url}: come again in a few seconds`, {
    retryAfter: 3,
  });
}

/** Sound ones first, and of them those that have least to do. */
function byTrust(a: Instance, b: Instance): number {
  return Number(a.isSuspect) - Number(b.isSuspect) || a.numRequests - b.numRequests;
}
