// POST /v1/completions/render and /v1/chat/completions/render: what the model would read for a request, without an answer.

import type { FastifyInstance } from 'fastify';
import { lazyList } from '../../http/json-pieces.ts';
import { replyJson } from '../../http/json-reply.ts';
import { answerAdmitted } from '../admitted.ts';
import type { ServerContext } from '../server-context.ts';
import type { GenerationEndpoint } from './generation-route.ts';

/** @param isSingle the request has one prompt: the answer is an object, not a list of them. */
export function renderRoute(
  app: FastifyInstance,
  context: ServerContext,
  endpoint: GenerationEndpoint,
  isSingle: boolean,
): void {
  const { body } = endpoint.about ?? {};
  const about = {
    summary: `The token ids that ${endpoint.path} would give the model`,
    ...(body !== undefined && { body }),
  };
  app.post(`${endpoint.path}/render`, { config: { about } }, (request, reply) =>
    answerAdmitted(context, request, reply, async ({ engine, client }) => {
      engine.expectGenerating();
      const { id, prompts, isStream } = await endpoint.parse(context, engine, request, client);
      const [model] = context.modelNames(engine);
      const rendered = lazyList(prompts, ({ promptTokenIds, params, adapter, priority }) => ({
        request_id: id,
        model: adapter?.name ?? model,
        token_ids: promptTokenIds,
        sampling_params: params,
        stream: isStream,
        priority,
      }));
      const answer = isSingle ? rendered.next().value : [...rendered];
      return replyJson(reply, answer);
    }),
  );
}
