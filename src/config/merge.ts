// Options from everywhere into one configuration: default < config file < environment < flag.

import { ConfigError } from '../errors.ts';
import { chooseAttention } from './attention-backends.ts';
import { checkAvailable } from './availability.ts';
import { corsConfig } from './cors-options.ts';
import type { EngineConfig, Quantization } from './engine-config.ts';
import { expectReachable, parseKvTransferConfig } from './kv-transfer-config.ts';
import { expectOtherNames, loraConfig } from './lora-config.ts';
import { mediaDomains, parseMaxImages } from './media-limits.ts';
import {
  type OptionInfo,
  type OptionNames,
  type OptionRows,
  type OptionTable,
  type OptionTableValues,
  optionName,
} from './option-table.ts';
import { type OptionKey, type OptionValues, SERVE_OPTIONS } from './options.ts';
import { BUNDLED_MODEL_NAME, type ServeConfig, type TlsConfig } from './serve-config.ts';
import { parseSpeculativeConfig } from './speculative-config.ts';
import { parseStructuredOutputsConfig } from './structured-outputs-config.ts';

/** A raw value and where it was written, in the words of a message: `--port`, `SVC_API_KEY`, `svc.yaml:3:1 (port)`. */
export interface GivenOption {
  readonly value: unknown;
  readonly origin: string;
}

/** The options that one place gives. */
export type OptionSource<K extends string = OptionKey> = ReadonlyMap<K, GivenOption>;

interface MergedOptions {
  readonly values: OptionValues;
  /** Options that some source gave, as opposed to defaults. */
  readonly given: OptionSource;
}

/** The options that the environment sets; an empty variable counts as unset, unless it is that of a secret. */
export function environmentOptions<K extends string>(
  table: OptionNames<K>,
  env: NodeJS.ProcessEnv,
): OptionSource<K> {
  const found = new Map<K, GivenOption>();
  for (const key of table.keys) {
    const { env: name, isSecret = false } = table.info(key);
    const value = name === undefined ? undefined : env[name];
    if (name === undefined || value === undefined || (value === '' && !isSecret)) continue;
    found.set(key, { value, origin: name });
  }
  return found;
}

/**
 * Checks and merges `sources`, options of svc serve; a later one wins over an earlier one.
 * @throws ConfigError naming the option as it was written, what was expected and what was given.
 */
export function mergeOptions(...sources: readonly OptionSource[]): MergedOptions {
  const given = new Map(sources.flatMap((source) => [...source]));
  return { values: checkedOptions(SERVE_OPTIONS, given), given };
}

/**
 * The values of all options of a table; an option that was not given has its default.
 * @throws ConfigError as `mergeOptions`.
 */
export function checkedOptions<R extends OptionRows>(
  table: OptionTable<R>,
  given: ReadonlyMap<string, GivenOption>,
): OptionTableValues<R> {
  const parsed = table.parse(new Map([...given].map(([key, { value }]) => [key, value])));
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const key = String(issue?.path[0]);
  const option = given.get(key) ?? { origin: `--${optionName(key)}`, value: undefined };
  throw new ConfigError(whyRefused(option, issue?.message ?? 'invalid', table.info(key)), {
    param: optionName(key),
  });
}

/** An empty variable is often one that was to be filled from another: got "" would say too little. */
function whyRefused({ origin, value }: GivenOption, expected: string, { env, isSecret }: OptionInfo): string {
  if (value !== '' || origin !== env)
    return `${origin}: ${expected}${isSecret ? '' : `, got ${show(value)}`}`;
  return `${origin} is set and empty, which keeps nobody out: unset it, or give it a value`;
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}

/**
 * The engine's part, complete; `modelPath` is the model as given, for the hub to resolve.
 * @throws ConfigError for options that contradict each other.
 * @throws NotAvailableError for a value whose feature is not there yet.
 */
export function engineConfig(model: string, { values, given }: MergedOptions): EngineConfig {
  checkAvailable(values);
  return {
    modelPath: model,
    tokenizer: values.tokenizer,
    revision: values.revision,
    downloadDir: values.downloadDir,
    device: values.device,
    dtype: values.dtype,
    quantization: quantization(values),
    packedCache: values.packedCache,
    packedCacheSize: packedCacheSize(values, given),
    loadFormat: values.loadFormat,
    hfOverrides: values.hfOverrides,
    runner: values.runner,
    convert: values.convert,
    maxModelLen: values.maxModelLen,
    ...stepLimits(values, given),
    maxQueuedRequests: values.maxQueuedRequests,
    schedulingPolicy: values.schedulingPolicy,
    blockSize: values.blockSize,
    enablePrefixCaching: values.enablePrefixCaching,
    kvCacheDtype: values.kvCacheDtype,
    kvCacheMemoryBytes: values.kvCacheMemoryBytes,
    gpuMemoryUtilization: values.gpuMemoryUtilization,
    tensorParallelSize: values.tensorParallelSize,
    pipelineParallelSize: values.pipelineParallelSize,
    dataParallelSize: dataParallelSize(values),
    share: null,
    numThreads: values.numThreads,
    cpuBind: values.cpuBind,
    cpuIsa: values.cpuIsa,
    attention: chooseAttention(values),
    enforceEager: values.enforceEager,
    executeModelTimeout: values.executeModelTimeout,
    seed: values.seed,
    skipTokenizerInit: values.skipTokenizerInit,
    chatTemplate: chatTemplate(values),
    chatTemplateContentFormat: values.chatTemplateContentFormat,
    toolCallParser: values.toolCallParser,
    reasoningParser: values.reasoningParser,
    generationConfig: values.generationConfig,
    overrideGenerationConfig: values.overrideGenerationConfig,
    maxLogprobs: values.maxLogprobs,
    maxImages: parseMaxImages(values.limitMmPerPrompt),
    mmProcessorKwargs: values.mmProcessorKwargs,
    allowedMediaDomains: mediaDomains(values.allowedMediaDomains),
    kvTransfer: parseKvTransferConfig(values.kvTransferConfig, {
      port: values.port,
      secret: values.kvTransferSecret,
    }),
    speculative: parseSpeculativeConfig(values.speculativeConfig),
    structuredOutputs: parseStructuredOutputsConfig(values.structuredOutputsConfig),
    lora: loraConfig(values),
  };
}

/** Quantised products take and give numbers of 16 bits. */
function quantization({ quantization, dtype }: OptionValues): Quantization | null {
  if (quantization === null || dtype !== 'float32') return quantization;
  throw new ConfigError(
    `--quantization ${quantization} and --dtype float32 contradict each other: quantised weights are computed with in ` +
      'bfloat16 or float16; leave out one of them',
    { param: 'quantization' },
  );
}

/** Between instances that exchange KV blocks each engine has a proxy's whole attention. */
function dataParallelSize({ dataParallelSize: size, kvTransferConfig }: OptionValues): number {
  if (size === 1 || Object.keys(kvTransferConfig ?? {}).length === 0) return size;
  throw new ConfigError(
    `--data-parallel-size ${size} and --kv-transfer-config exclude each other: an instance that exchanges KV blocks has one engine; ` +
      `start ${size} instances behind svc proxy`,
    { param: 'data-parallel-size' },
  );
}

/** A size of nothing would be ignored silently. */
function packedCacheSize({ packedCache, packedCacheSize }: OptionValues, given: OptionSource): number {
  if (packedCache !== null || !given.has('packedCacheSize')) return packedCacheSize;
  throw new ConfigError(
    '--packed-cache-size needs --packed-cache: give the folder that keeps packed weights',
    {
      param: 'packed-cache-size',
    },
  );
}

/** Chats need a tokenizer: a template without one would never be used. */
function chatTemplate({ chatTemplate, skipTokenizerInit }: OptionValues): string | null {
  if (chatTemplate === null || !skipTokenizerInit) return chatTemplate;
  throw new ConfigError(
    '--chat-template and --skip-tokenizer-init contradict each other: chats need a tokenizer; leave out one of them',
    { param: 'chat-template' },
  );
}

/** A step must hold one token of every running request: of the two limits, the one left to its default gives way. */
function stepLimits(
  { maxNumBatchedTokens, maxNumSeqs }: OptionValues,
  given: OptionSource,
): Pick<EngineConfig, 'maxNumBatchedTokens' | 'maxNumSeqs'> {
  if (maxNumBatchedTokens >= maxNumSeqs) return { maxNumBatchedTokens, maxNumSeqs };
  if (!given.has('maxNumSeqs')) return { maxNumBatchedTokens, maxNumSeqs: maxNumBatchedTokens };
  if (!given.has('maxNumBatchedTokens')) return { maxNumBatchedTokens: maxNumSeqs, maxNumSeqs };
  throw new ConfigError(
    `--max-num-batched-tokens ${maxNumBatchedTokens} is less than --max-num-seqs ${maxNumSeqs}: every running request ` +
      `needs a token a step; raise the first to ${maxNumSeqs} or lower the second to ${maxNumBatchedTokens}`,
    { param: 'max-num-batched-tokens' },
  );
}

/** `api/` is `/api`; null where there is no prefix. */
function rootPath(given: string | null): string | null {
  const path = `/${given ?? ''}`.replace(/^\/+/, '/').replace(/\/+$/, '');
  return path === '' ? null : path;
}

function tlsConfig(values: OptionValues): TlsConfig | null {
  const { sslCertfile, sslKeyfile, sslCaCerts, sslCertReqs } = values;
  if (sslCertfile === null) {
    const behind = Object.entries({ sslKeyfile, sslCaCerts, sslCertReqs }).find(([, value]) => value);
    if (behind === undefined) return null;
    throw new ConfigError(`--${optionName(behind[0])} needs --ssl-certfile: give the server's certificate`, {
      param: optionName(behind[0]),
    });
  }
  if (sslCertReqs > 0 && sslCaCerts === null) {
    throw new ConfigError(
      `--ssl-cert-reqs ${sslCertReqs} needs --ssl-ca-certs: give the authorities of the clients' certificates`,
      { param: 'ssl-cert-reqs' },
    );
  }
  if (values.kvTransferConfig !== null) {
    throw new ConfigError(
      '--ssl-certfile and --kv-transfer-config exclude each other: the proxy calls its instances by plain HTTP',
      { param: 'ssl-certfile' },
    );
  }
  return {
    certFile: sslCertfile,
    keyFile: sslKeyfile ?? sslCertfile,
    caFile: sslCaCerts,
    needsClientCert: sslCertReqs > 0,
  };
}

function servedNames({ servedModelName, model }: OptionValues): readonly [string, ...string[]] {
  const [first, ...others] = new Set(servedModelName);
  return first === undefined ? [model ?? BUNDLED_MODEL_NAME] : [first, ...others];
}

/**
 * What `svc serve` starts from.
 * @param model the model as given, null for the one that svc makes itself.
 * @throws ConfigError and NotAvailableError as `engineConfig`.
 */
export function serveConfig(merged: MergedOptions): ServeConfig {
  const { values } = merged;
  if (values.enableLogRequests && values.disableLogRequests) {
    throw new ConfigError(
      '--enable-log-requests and --disable-log-requests contradict each other: give one of them',
      { param: 'enable-log-requests' },
    );
  }
  const engine = engineConfig(values.model ?? '', merged);
  const servedModelNames = servedNames(values);
  expectOtherNames(engine.lora, servedModelNames);
  if (engine.kvTransfer !== null) expectReachable(engine.kvTransfer, values.host);
  return {
    model: values.model,
    engine,
    answers: {
      servedModelNames,
      showsCachedTokens: values.enablePromptTokensDetails,
      trustsRequestTemplates: values.trustRequestChatTemplate,
      defaultTemplateVariables: values.defaultChatTemplateKwargs ?? {},
      responseRole: values.responseRole,
      areTokensIds: values.returnTokensAsTokenIds,
    },
    http: {
      host: values.host,
      port: values.port,
      apiKeys: values.apiKey,
      cors: corsConfig(values),
      logRequests: values.enableLogRequests,
      maxLoggedLength: values.maxLogLen,
      logStats: !values.disableLogStats,
      logsAccess: !values.disableUvicornAccessLog,
      logLevel: values.uvicornLogLevel ?? values.logLevel,
      rootPath: rootPath(values.rootPath),
      tracesEndpoint: values.otlpTracesEndpoint,
      hasPage: values.ui,
      tls: tlsConfig(values),
      streamInterval: values.streamInterval,
      alwaysTellsUsage: values.enableForceIncludeUsage,
      showsTokenizer: values.enableTokenizerInfoEndpoint,
      hidesDocs: values.disableFastapiDocs,
      requestTimeoutSeconds: values.requestTimeout,
    },
    logLevel: values.logLevel,
    shutdownTimeoutSeconds: values.shutdownTimeout,
    notices: optionsWithoutEffect(values),
  };
}

/** Other servers take them just so. */
function optionsWithoutEffect({ trustRemoteCode, sslCaCerts, sslCertReqs }: OptionValues): string[] {
  const notices: string[] = [];
  if (trustRemoteCode) {
    notices.push('--trust-remote-code has no effect: svc runs no code from model folders');
  }
  if (sslCaCerts !== null && sslCertReqs === 0) {
    notices.push(
      '--ssl-ca-certs has no effect without --ssl-cert-reqs 2: clients may connect without a certificate',
    );
  }
  return notices;
}
