// POST /kv_transfer/cancel: a proxy cancels a request, on every instance that may hold KV blocks for it.

import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { parseRequestId } from '../../cluster/request-id.ts';
import { CancelledError } from '../../errors.ts';
import { parseBody } from '../parse-body.ts';
import type { ServerContext } from '../server-context.ts';

/** It has 128 random bits that only the proxy and its instances know; the ids of clients can be guessed. */
const cancelSchema = z.looseObject({
  request_id: z
    .string()
    .refine((id) => parseRequestId(id) !== null, 'must be an id that a proxy has made of two addresses'),
});

export function kvTransferRoutes(app: FastifyInstance, context: ServerContext): void {
  app.post('/kv_transfer/cancel', async (request) => {
    const { request_id } = parseBody(cancelSchema, request.body);
    context.inFlight.abort(request_id, new CancelledError('The request was cancelled by its proxy'));
    context.livingEngine?.transfers?.cancel(request_id);
    return {};
  });
}
