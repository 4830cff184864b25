// POST /invocations: one path for all that the model does, as hosts of models call it; the fields of a request say what it is.

import type { FastifyInstance } from 'fastify';
import { MalformedRequestError } from '../../errors.ts';
import type { ServerContext } from '../server-context.ts';
import { chatCompletions } from './chat-completions.ts';
import { completions } from './completions.ts';
import { embeddings } from './embeddings.ts';
import { generate } from './generation-route.ts';
import { pool } from './pooling-route.ts';
import { rerank, score } from './scores.ts';

const SUMMARY = 'Whatever the fields of the request ask for: a chat, a completion, embeddings, scores';

export function invocationsRoute(app: FastifyInstance, context: ServerContext): void {
  app.post('/invocations', { config: { about: { summary: SUMMARY } } }, async (request, reply) => {
    const has = (field: string): boolean =>
      typeof request.body === 'object' && request.body !== null && Object.hasOwn(request.body, field);
    if (has('messages')) return generate(context, chatCompletions, request, reply);
    if (has('prompt')) return generate(context, completions, request, reply);
    if (has('input')) return pool(context, embeddings, request, reply);
    if (has('text_1')) return pool(context, score, request, reply);
    if (has('query')) return pool(context, rerank, request, reply);
    throw new MalformedRequestError(
      'The body must be a JSON object with messages (a chat), prompt (a completion), input (embeddings), text_1 and text_2 ' +
        '(scores), or query and documents (a ranking)',
    );
  });
}
