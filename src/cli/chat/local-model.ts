// A model in this process with a server that only this process can use: requests and errors are the same as with any
// other server.

import { randomUUID } from 'node:crypto';
import type { GivenOption, OptionSource } from '../../config/merge.ts';
import type { OptionKey } from '../../config/options.ts';
import { createLogger } from '../../observability/log.ts';
import type { ApiClient } from '../api-client.ts';

interface LocalModel {
  readonly client: ApiClient;
  close(): Promise<void>;
}

/** @param model folder, or name on the hub; null is the one that svc brings along. */
export async function startLocalModel(model: string | null): Promise<LocalModel> {
  const [{ readConfig, servedNames, startEngine }, { startServer }, { version }] = await Promise.all([
    import('../serve.ts'),
    import('../../server/server.ts'),
    import('../../util/version.ts'),
  ]);
  const config = await readConfig(options(model));
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
    async close() {
      await server.close();
      await engine.close();
    },
  };
}

/** One conversation needs the KV memory of one request. */
function options(model: string | null): OptionSource {
  const given = new Map<OptionKey, GivenOption>([['maxNumSeqs', { value: 1, origin: 'svc chat' }]]);
  return model === null ? given : given.set('model', { value: model, origin: 'model' });
}
