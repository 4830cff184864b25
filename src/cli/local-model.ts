// A model in this process with a server that only this process can use: requests and errors are the same as with any
// other server.

import { randomUUID } from 'node:crypto';
import type { OptionSource } from '../config/merge.ts';
import type { ServeConfig } from '../config/serve-config.ts';
import { createLogger } from '../observability/log.ts';
import type { ApiClient } from './api-client.ts';

interface LocalModel {
  readonly client: ApiClient;
  readonly config: ServeConfig;
  close(): Promise<void>;
}

/** @param flags as of svc serve; what concerns its server has no effect. */
export async function startLocalModel(flags: OptionSource): Promise<LocalModel> {
  const [{ readConfig, servedNames, startEngine }, { startServer }, { version }] = await Promise.all([
    import('./serve.ts'),
    import('../server/server.ts'),
    import('../util/version.ts'),
  ]);
  const config = await readConfig(flags);
  const logger = createLogger('error');
  const engine = await startEngine(config, logger);
  const apiKey = randomUUID();
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    version: version(),
    apiKeys: [apiKey],
    servedModelNames: await servedNames(config),
    logger,
    engine,
  });
  return {
    client: { url: `${server.url}/v1`, apiKey },
    config,
    async close() {
      await server.close();
      await engine.close();
    },
  };
}
