// The report of the choices made at start: model, backend, threads, cache, address.

import { formatAddress } from '../cluster/address.ts';
import type { KvTransferConfig } from '../config/kv-transfer-config.ts';
import type { ServeConfig } from '../config/serve-config.ts';
import type { SpeculativeConfig } from '../config/speculative-config.ts';
import type { InferenceEngine } from '../engine/inference-engine.ts';
import type { EngineInfo } from '../runner/executor.ts';
import { bytes } from '../util/bytes.ts';
import { urlHost } from '../util/url-host.ts';
import { version } from '../util/version.ts';

export function startReport(
  config: ServeConfig,
  engine: InferenceEngine,
  port: number,
  seconds: number,
): string {
  const { info } = engine;
  const { host, apiKeys, tls } = config.http;
  const address = `${tls === null ? 'http' : 'https'}://${printable(host)}:${port}`;
  const origin = info.isFromPackedCache ? ', packed weights from the cache' : '';
  const rows: readonly (readonly [string, string])[] = [
    ['model', `${info.model} (${info.architecture}, ${bytes(info.weightBytes)} of weights${origin})`],
    [
      'dtype',
      info.weightFormat === info.dtype ? info.dtype : `${info.dtype}, weights in ${info.weightFormat}`,
    ],
    ...engineRows(engine),
    ['backend', `${info.backend}: ${info.compute} (${info.backendReason})`],
    ...memoryRows(info),
    [
      'kv cache',
      `${info.numBlocks} blocks of ${info.blockSize} tokens${groupsText(info)} in ${info.kvDType}`,
    ],
    ...stateRows(info),
    [
      'concurrency',
      `${Number(info.maxConcurrency.toFixed(1))} requests of ${info.maxModelLen} tokens at once`,
    ],
    ...imageRows(engine),
    ['address', `${address}/v1${host === null ? ' (all interfaces)' : ''}`],
    ...kvTransferRows(config.engine.kvTransfer),
    ...speculationRows(config.engine.speculative),
    ...adapterRows(engine),
    ['api keys', apiKeys.length === 0 ? 'none: everybody may use the server' : `${apiKeys.length}`],
  ];
  const lines = rows.map(([name, value]) => `  ${name.padEnd(12)} ${value}`);
  const hint =
    config.model === null
      ? ['  No model was named: this is the small chat model that svc brings along. It knows little.']
      : [];
  const report = [`svc ${version()} is ready after ${seconds.toFixed(1)} s`, ...lines, ...hint];
  return `${[...report, ...nextSteps(address, engine, apiKeys.length > 0)].join('\n')}\n`;
}

function imageRows({ imageInputs, maxImages }: InferenceEngine): readonly (readonly [string, string])[] {
  return imageInputs === null ? [] : [['images', `up to ${maxImages} a prompt`]];
}

function engineRows({ numEngines }: InferenceEngine): readonly (readonly [string, string])[] {
  return numEngines === 1 ? [] : [['engines', `${numEngines}, of which this is the first`]];
}

/** What each rank or stage has; those that have the same are told of together. */
function memoryRows({ ranks }: EngineInfo): readonly (readonly [string, string])[] {
  if (ranks.length === 1) return [];
  const parts = ranks.map(
    ({ weightBytes, kvCacheBytes }) =>
      `${bytes(weightBytes)} of weights and ${bytes(kvCacheBytes)} of KV cache`,
  );
  const areAlike = new Set(parts).size === 1;
  return [['memory', areAlike ? `${parts.length} times ${parts[0]}` : parts.join('; ')]];
}

function stateRows({ maxNumSeqs, numSnapshots }: EngineInfo): readonly (readonly [string, string])[] {
  if (numSnapshots === null) return [];
  return [
    ['states', `of ${maxNumSeqs} sequences at once, and ${numSnapshots} kept for prompts that begin alike`],
  ];
}

function adapterRows({ adapters }: InferenceEngine): readonly (readonly [string, string])[] {
  const names = adapters.all.map(({ name, maxRank }) => `${name} (rank ${maxRank})`);
  return names.length === 0 ? [] : [['adapters', names.join(', ')]];
}

function nextSteps(address: string, engine: InferenceEngine, needsKey: boolean): string[] {
  const key = needsKey ? " -H 'authorization: Bearer <key>'" : '';
  const { path, body } = firstRequest(engine);
  const curl = `curl ${address}${path} -H 'content-type: application/json'${key} -d '${JSON.stringify(body)}'`;
  // Started by npm, the command may not be installed; and npx would fetch another program of its name outside this folder.
  const command = process.env.npm_lifecycle_event === 'start' ? 'npm run chat --' : 'svc chat';
  const chat = `${needsKey ? 'OPENAI_API_KEY=<key> ' : ''}${command} --url ${address}/v1`;
  return [
    'Try it from another terminal:',
    `  ${curl}`,
    ...(engine.chatTemplate === null || engine.info.pooling !== null ? [] : [`  ${chat}`]),
  ];
}

function firstRequest({ tokenizer, chatTemplate, info }: InferenceEngine): { path: string; body: object } {
  if (info.pooling?.task === 'embed') {
    return { path: '/v1/embeddings', body: { input: tokenizer === null ? [1, 2, 3] : 'Once upon a time' } };
  }
  if (info.pooling !== null) {
    return { path: '/v1/rerank', body: { query: 'What is a cat?', documents: ['an animal', 'a star'] } };
  }
  if (chatTemplate !== null) {
    return { path: '/v1/chat/completions', body: { messages: [{ role: 'user', content: 'Hello!' }] } };
  }
  return { path: '/v1/completions', body: { prompt: tokenizer === null ? [1, 2, 3] : 'Once upon a time' } };
}

/** For an instance of disaggregated serving. */
function kvTransferRows(transfer: KvTransferConfig | null): readonly (readonly [string, string])[] {
  if (transfer === null) return [];
  const { role, sendType, proxy } = transfer;
  const join = proxy === null ? 'no proxy' : `proxy ${formatAddress(proxy)}`;
  return [['kv transfer', `${role} at ${formatAddress(transfer)}, ${sendType}, ${join}`]];
}

function speculationRows(config: SpeculativeConfig | null): readonly (readonly [string, string])[] {
  if (config === null) return [];
  return [['speculation', `${config.method}, up to ${config.numSpeculativeTokens} tokens a draft`]];
}

/** Where a block holds some of the layers alone. */
function groupsText({ windows }: EngineInfo): string {
  return windows.length === 1 ? '' : `, each of one of ${windows.length} groups of layers,`;
}

function printable(host: string | null): string {
  if (host === null || host === '0.0.0.0' || host === '::') return 'localhost';
  return urlHost(host);
}
