// A server over a tiny model on a free port, with the official client: what every test of this folder talks to.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { expect } from 'vitest';
import { z } from 'zod';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { type Server, startServer } from '../../src/server/server.ts';
import type { ServerOptions } from '../../src/server/server-context.ts';
import { type TinyModelOptions, writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';

export interface TestServer {
  readonly server: Server;
  readonly engine: InferenceEngine;
  readonly url: string;
  /** Retries nothing, so that a test sees each answer. */
  readonly client: OpenAI;
  /** POSTs JSON, or the text itself. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
  close(): Promise<void>;
}

export interface TestServerOptions {
  /** A model that is already there, in place of a tiny one. */
  readonly folder?: string;
  readonly model?: TinyModelOptions;
  readonly engine?: Partial<EngineConfig>;
  readonly server?: Partial<ServerOptions>;
}

export const MODEL = 'tiny';
/** Of conversations with calls and their results. */
export const TEMPLATE_OF_CALLS =
  '{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}' +
  '{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}' +
  '{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}';
/** Version, kernels, format and model. */
export const FINGERPRINT: string = expect.stringMatching(/^svc-9\.9\.9-[\w-]+-\w+-[0-9a-f]{12}$/);

export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const { engine, remove } = await startTinyEngine(options);
  const server = await startServer({
    engine,
    host: '127.0.0.1',
    port: 0,
    version: '9.9.9',
    servedModelNames: [MODEL, 'org/alias'],
    ...options.server,
  });
  return {
    server,
    engine,
    url: server.url,
    client: clientOf(server.url, options.server?.apiKeys?.[0]),
    post: (path, body, headers = {}) =>
      fetch(`${server.url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
    close: async () => {
      await server.close();
      await engine.close();
      remove();
    },
  };
}

export function clientOf(url: string, apiKey = 'none'): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
}

/** `remove` deletes the model's folder. */
export async function startTinyEngine(
  options: TestServerOptions,
): Promise<{ engine: InferenceEngine; remove: () => void }> {
  const temporary = mkdtempSync(join(tmpdir(), 'svc-server-'));
  if (options.folder === undefined) writeTinyModel(temporary, { seed: 5, ...options.model });
  const engine = await InferenceEngine.start({
    ...ENGINE_DEFAULTS,
    modelPath: options.folder ?? temporary,
    kvCacheMemoryBytes: 16 * 1024 * 1024,
    ...options.engine,
  });
  return { engine, remove: () => rmSync(temporary, { recursive: true }) };
}

const errorShape = z.strictObject({
  error: z.strictObject({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.int(),
  }),
});

/** The error of an answer, which must have the standard shape and the status as its code. */
export async function errorOf(
  response: Response,
): Promise<z.output<typeof errorShape>['error'] & { readonly status: number }> {
  const { error } = errorShape.parse(await response.json());
  if (error.code !== response.status)
    throw new Error(`code ${error.code} in an answer of ${response.status}`);
  return { status: response.status, ...error };
}

/** The body as whatever JSON it is. */
export async function bodyOf(response: Response) {
  return JSON.parse(await response.text());
}

/** Nothing runs or waits, and every block is free. */
export async function isIdle(engine: InferenceEngine): Promise<boolean> {
  const { running, waiting, freeBlocks, numBlocks } = await engine.stats();
  return running === 0 && waiting === 0 && freeBlocks === numBlocks;
}

/** The data of every event of a stream, `[DONE]` included. */
export function eventsOf(stream: string): string[] {
  return stream
    .split('\n\n')
    .filter((event) => event.startsWith('data: '))
    .map((event) => event.slice('data: '.length));
}
