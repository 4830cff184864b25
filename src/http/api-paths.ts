// The routes of a server as its OpenAPI document names them.

import type { FastifyInstance, RouteOptions } from 'fastify';

export interface ApiRoute {
  /** `/v1/models/*` is `/v1/models/{name}`, `/v1/responses/:id` is `/v1/responses/{id}`. */
  readonly path: string;
  /** In the document's letters: `get`. */
  readonly method: string;
  readonly config: RouteOptions['config'];
}

const NOT_DESCRIBED = new Set(['HEAD', 'OPTIONS']);

/** A list that takes up the routes that are added to `app` from now on. */
export function rememberRoutes(app: FastifyInstance): readonly ApiRoute[] {
  const routes: ApiRoute[] = [];
  app.addHook('onRoute', ({ url, method, config }) => {
    const path = url.replace(/\*$/, '{name}').replace(/:(\w+)/g, '{$1}');
    for (const one of [method].flat()) {
      if (!NOT_DESCRIBED.has(one)) routes.push({ path, method: one.toLowerCase(), config });
    }
  });
  return routes;
}
