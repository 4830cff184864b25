// GET /v1/models and GET /v1/models/{id}: the one model of this server, a card for each of its names.

import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { InferenceEngine } from '../../engine/inference-engine.ts';
import type { ServerContext } from '../server-context.ts';

export function modelsRoute(app: FastifyInstance, context: ServerContext): void {
  app.get('/v1/models', async () => {
    const { engine } = context;
    const data = context.modelNames(engine).map((name) => card(name, context.startedAt, engine));
    return { object: 'list', data };
  });
  // Names may hold slashes, written as they are or as %2F.
  app.get<{ Params: { '*': string } }>('/v1/models/*', async (request) => {
    const { engine } = context;
    const name = request.params['*'];
    context.checkModel(name, engine);
    return card(name, context.startedAt, engine);
  });
}

/** @param created Unix seconds. */
function card(name: string, created: number, engine: InferenceEngine) {
  return {
    id: name,
    object: 'model',
    created,
    owned_by: 'svc',
    root: engine.info.model,
    parent: null,
    max_model_len: engine.info.maxModelLen,
    permission: [
      {
        id: `modelperm-${randomUUID().replaceAll('-', '')}`,
        object: 'model_permission',
        created,
        allow_create_engine: false,
        allow_sampling: true,
        allow_logprobs: true,
        allow_search_indices: false,
        allow_view: true,
        allow_fine_tuning: false,
        organization: '*',
        group: null,
        is_blocking: false,
      },
    ],
  };
}
