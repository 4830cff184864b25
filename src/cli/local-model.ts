// A model in this process with a server that only this process can use: requests and errors are the same as with any
// other server.

import { createHash, randomUUID } from 'node:crypto';
import type { OptionSource } from '../config/merge.ts';
import type { ServeConfig } from '../config/serve-config.ts';
import type { InferenceEngine } from '../engine/inference-engine.ts';
import type { EngineDeadError } from '../errors.ts';
import { createLogger } from '../observability/log.ts';
import { systemFingerprint } from '../server/system-fingerprint.ts';
import { version } from '../util/version.ts';
import type { ApiClient } from './api-client.ts';

export interface LocalModel {
  readonly client: ApiClient;
  readonly config: ServeConfig;
  /**
   * The same for all that answer alike: the `system_fingerprint` of answers, that of each adapter by its name, and what options say of prompts, sampling and
   * answers.
   */
  readonly fingerprint: string;
  /** False as soon as the engine has ended by itself: answers from then on are faults of it. */
  readonly isAlive: boolean;
  /** Resolves when that happens. */
  readonly died: Promise<EngineDeadError>;
  close(): Promise<void>;
}

/** @param flags as of svc serve; what concerns its server has no effect. */
export async function startLocalModel(flags: OptionSource): Promise<LocalModel> {
  const [{ readConfig, startEngine }, { startServer }] = await Promise.all([
    import('./serve.ts'),
    import('../server/server.ts'),
  ]);
  const config = withoutQueueLimit(await readConfig(flags));
  const logger = createLogger('error');
  const engine = await startEngine(config, logger);
  const apiKey = randomUUID();
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    version: version(),
    apiKeys: [apiKey],
    ...config.answers,
    logger,
    engine,
  });
  return {
    client: { url: `${server.url}/v1`, apiKey },
    config,
    fingerprint: `${fingerprintOf(engine)} options=${optionsDigest(config)}`,
    get isAlive() {
      return engine.isAlive;
    },
    died: engine.died,
    async close() {
      await server.close();
      await engine.close();
    },
  };
}

/** Who has a model to himself is not told to come again: he would wait while it has nothing to do. */
function withoutQueueLimit(config: ServeConfig): ServeConfig {
  return { ...config, engine: { ...config.engine, maxQueuedRequests: Number.MAX_SAFE_INTEGER } };
}

function fingerprintOf({ info, adapters }: InferenceEngine): string {
  const ofAdapters = adapters.all.map(
    (adapter) => `${adapter.name}=${systemFingerprint(version(), info, adapter)}`,
  );
  return [systemFingerprint(version(), info, null), ...ofAdapters.sort()].join(' ');
}

/** Of the options that answers depend on beside model and request. */
function optionsDigest({ engine, answers }: ServeConfig): string {
  const { tokenizer, hfOverrides, maxModelLen, seed, maxLogprobs, structuredOutputs } = engine;
  const { chatTemplate, chatTemplateContentFormat, toolCallParser, reasoningParser } = engine;
  const { generationConfig, overrideGenerationConfig, mmProcessorKwargs } = engine;
  // The same model has another name where its folder has moved.
  const { servedModelNames: _, ...ofAnswers } = answers;
  const options = {
    ...{ tokenizer, hfOverrides, maxModelLen, seed, maxLogprobs, structuredOutputs },
    ...{ chatTemplate, chatTemplateContentFormat, toolCallParser, reasoningParser },
    ...{ generationConfig, overrideGenerationConfig, mmProcessorKwargs },
    ...ofAnswers,
  };
  return createHash('sha256').update(JSON.stringify(options)).digest('hex').slice(0, 12);
}
