// GET /v1/models and GET /v1/models/{id}: the one model of this server, a card for each of its names, and one for each adapter.

import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { InferenceEngine, ServedAdapter } from '../../engine/inference-engine.ts';
import type { ServerContext } from '../server-context.ts';

export function modelsRoute(app: FastifyInstance, context: ServerContext): void {
  app.get('/v1/models', async () => {
    const { engine } = context;
    const models = context.modelNames(engine).map((name) => modelCard(context, engine, name));
    const adapters = engine.adapters.all.map((adapter) => adapterCard(context, engine, adapter));
    return { object: 'list', data: [...models, ...adapters] };
  });
  // Names may hold slashes, written as they are or as %2F.
  app.get<{ Params: { '*': string } }>('/v1/models/*', async (request) => {
    const { engine } = context;
    const name = request.params['*'];
    const adapter = context.adapterOf(name, engine);
    return adapter === null ? modelCard(context, engine, name) : adapterCard(context, engine, adapter);
  });
}

function modelCard({ startedAt }: ServerContext, { info }: InferenceEngine, name: string) {
  return card(name, startedAt, { root: info.model, parent: null, max_model_len: info.maxModelLen });
}

function adapterCard(context: ServerContext, engine: InferenceEngine, adapter: ServedAdapter) {
  const { name, path: root, baseModelName } = adapter;
  const parent = baseModelName ?? context.modelNames(engine)[0];
  return card(name, context.startedAt, { root, parent, max_model_len: null });
}

/** @param created Unix seconds. */
function card(
  name: string,
  created: number,
  about: { readonly root: string; readonly parent: string | null; readonly max_model_len: number | null },
) {
  return {
    id: name,
    object: 'model',
    created,
    owned_by: 'svc',
    ...about,
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
