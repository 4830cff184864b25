// The one table of the options of svc serve and new LLM: what the command line, the config file, the environment, the
// help and the reference page know about an option, they know from here.

import { corsOptions } from './cors-options.ts';
import { CPU_ISAS } from './cpu-isa.ts';
import { ENGINE_DEFAULTS } from './engine-config.ts';
import { choice, flag, integer, json, list, multiple, seconds, share, size, text } from './option-kinds.ts';
import { OptionTable, type OptionTableValues, option, optional } from './option-table.ts';

/** Defaults of the options that the engine does not know. */
const DEFAULT_PORT = 8000;
const DEFAULT_SHUTDOWN_TIMEOUT_SECONDS = 30;

export const SERVE_OPTIONS = new OptionTable({
  model: optional(text('<model>'), {
    group: 'General',
    help: 'folder of a model, or its name on the hub; the same as the argument of svc serve',
    defaultText: 'the small chat model that svc brings along',
  }),
  config: optional(text('<file>'), {
    group: 'General',
    help: 'YAML file with options: their names without dashes; flags and environment win over it',
    defaultText: 'none',
  }),
  logLevel: option(choice(['debug', 'info', 'warn', 'error', 'silent'], { warning: 'warn' }), 'info', {
    group: 'General',
    help: 'least level of what is logged',
    env: 'SVC_LOGGING_LEVEL',
  }),

  host: optional(text('<address>'), {
    group: 'Server',
    help: 'address to listen on',
    defaultText: 'all interfaces',
  }),
  port: option(integer(0, 65535), DEFAULT_PORT, {
    group: 'Server',
    help: 'port to listen on; 0 takes a free one',
  }),
  apiKey: option<readonly string[]>(list('<key...>'), [], {
    group: 'Server',
    help: 'keys that clients may use: several values, or the option several times',
    defaultText: 'none: everybody may use the server',
    env: 'SVC_API_KEY',
  }),
  ...corsOptions('Server'),
  servedModelName: option<readonly string[]>(list('<name...>'), [], {
    group: 'Server',
    help: 'names under which clients ask for the model; the first one is in the answers',
    defaultText: 'the model as given',
  }),
  enableLogRequests: option(flag(), false, {
    group: 'Server',
    help: 'log the parameters of every generation request, never its text',
  }),
  disableLogRequests: option(flag(), false, {
    group: 'Server',
    help: 'do not log the parameters of requests, which is the default',
    aliases: ['--disable-log-request'],
  }),
  disableLogStats: option(flag(), false, {
    group: 'Server',
    help: 'do not log a line of statistics every 10 seconds while there is work',
  }),
  disableUvicornAccessLog: option(flag(), false, {
    group: 'Server',
    help: 'no line in the log for a request that was answered; what is refused is logged still',
  }),
  uvicornLogLevel: optional(
    choice(['debug', 'info', 'warn', 'error', 'silent'], {
      trace: 'debug',
      warning: 'warn',
      critical: 'error',
    }),
    {
      group: 'Server',
      help: 'least level of what is logged about HTTP requests',
      defaultText: '--log-level',
    },
  ),
  rootPath: optional(text('<path>'), {
    group: 'Server',
    help: 'path in front of every route, as a gateway may send it: /api answers /api/v1/models and /v1/models',
    defaultText: 'none',
  }),
  enablePromptTokensDetails: option(flag(), true, {
    group: 'Server',
    help: 'tell in the usage how many tokens of the prompt came from the prefix cache',
  }),
  requestTimeout: option(seconds(), 0, {
    group: 'Server',
    help: 'how long a request may take, waiting included, before it is ended with an error (504); 0 is no limit',
  }),
  shutdownTimeout: option(seconds(), DEFAULT_SHUTDOWN_TIMEOUT_SECONDS, {
    group: 'Server',
    help: 'how long running requests may take to finish after SIGTERM or SIGINT',
  }),

  sslCertfile: optional(text('<file>'), {
    group: 'TLS',
    help: 'certificate of the server, PEM: the server speaks HTTPS then',
    defaultText: 'none: plain HTTP',
  }),
  sslKeyfile: optional(text('<file>'), {
    group: 'TLS',
    help: 'private key of --ssl-certfile, PEM',
    defaultText: 'in --ssl-certfile',
  }),
  sslCaCerts: optional(text('<file>'), {
    group: 'TLS',
    help: 'authorities whose client certificates are accepted, PEM',
    defaultText: 'none',
  }),
  sslCertReqs: option(integer(0, 2), 0, {
    group: 'TLS',
    help: 'certificates of clients: 0 asks for none, 2 needs one (1 is not available yet)',
  }),

  tokenizer: optional(text('<model>'), {
    group: 'Model',
    help: 'folder, or name on the hub, that holds the tokenizer and the chat template',
    defaultText: 'that of the model',
    isEngineOption: true,
  }),
  revision: optional(text('<name>'), {
    group: 'Model',
    help: 'branch, tag or commit of the model on the hub',
    defaultText: 'the main branch',
    isEngineOption: true,
  }),
  downloadDir: optional(text('<folder>'), {
    group: 'Model',
    help: 'where models from the hub are kept',
    defaultText: 'the cache of the hub, see HF_HOME',
    isEngineOption: true,
  }),
  dtype: option(
    choice(['auto', 'float32', 'bfloat16', 'float16'], { float: 'float32', half: 'float16' }),
    ENGINE_DEFAULTS.dtype,
    {
      group: 'Model',
      help: 'format of weights and activations; auto is that of the checkpoint (float16 is not available yet)',
      isEngineOption: true,
    },
  ),
  quantization: optional(choice(['int8']), {
    group: 'Model',
    help: 'quantise the weights while they are read: int8 takes half the memory and time of bfloat16 (it computes in bfloat16)',
    aliases: ['-q'],
    defaultText: 'none',
    isEngineOption: true,
  }),
  maxModelLen: optional(size(1), {
    group: 'Model',
    help: 'longest sequence, prompt and answer together, in tokens',
    defaultText: "the model's own limit",
    isEngineOption: true,
  }),
  seed: option(integer(0), ENGINE_DEFAULTS.seed, {
    group: 'Model',
    help: 'seed of requests that bring none',
    isEngineOption: true,
  }),
  generationConfig: option(text('<source>'), ENGINE_DEFAULTS.generationConfig, {
    group: 'Model',
    help: "where sampling defaults come from: auto (the model's generation_config.json), svc (no such defaults) or a folder",
    isEngineOption: true,
  }),
  overrideGenerationConfig: optional(json(), {
    group: 'Model',
    help: 'sampling defaults over those of --generation-config, in the spelling of generation_config.json; max_new_tokens is a limit on every answer',
    defaultText: 'none',
    isEngineOption: true,
  }),
  maxLogprobs: option(integer(-1), ENGINE_DEFAULTS.maxLogprobs, {
    group: 'Model',
    help: 'most log-probabilities a token that a request may ask for; -1 is no limit',
    isEngineOption: true,
  }),
  skipTokenizerInit: option(flag(), ENGINE_DEFAULTS.skipTokenizerInit, {
    group: 'Model',
    help: 'load no tokenizer: token ids in, token ids out',
    isEngineOption: true,
  }),
  chatTemplate: optional(text('<template>'), {
    group: 'Model',
    help: 'chat template in place of the one that the model brings: a file, or the Jinja text itself in one line',
    defaultText: "the model's own",
    isEngineOption: true,
  }),
  trustRemoteCode: option(flag(), false, {
    group: 'Model',
    help: 'accepted and without effect: svc runs no code from model folders',
    isEngineOption: true,
  }),

  blockSize: option(multiple(16, 256), ENGINE_DEFAULTS.blockSize, {
    group: 'Memory',
    help: 'tokens of a KV cache block',
    isEngineOption: true,
  }),
  gpuMemoryUtilization: option(share(), ENGINE_DEFAULTS.gpuMemoryUtilization, {
    group: 'Memory',
    help: 'share of the memory that svc may use, on every kind of hardware',
    isEngineOption: true,
  }),
  kvCacheMemoryBytes: optional(size(1), {
    group: 'Memory',
    help: 'exact size of the KV cache in bytes',
    defaultText: 'from --gpu-memory-utilization',
    isEngineOption: true,
  }),
  enablePrefixCaching: option(flag(), ENGINE_DEFAULTS.enablePrefixCaching, {
    group: 'Memory',
    help: 'keep the KV blocks of finished requests for others that begin alike; --no-enable-prefix-caching computes every prompt',
    isEngineOption: true,
  }),

  kvTransferConfig: optional(json(), {
    group: 'KV transfer',
    help: 'compute prompts for other instances, or decode what they computed: kv_connector, kv_role, kv_port and more as JSON, or part by part: --kv-transfer-config.kv_role kv_producer',
    defaultText: 'none: this instance does both',
    isEngineOption: true,
  }),
  kvTransferSecret: optional(text('<secret>'), {
    group: 'KV transfer',
    help: 'shared by all instances and the proxy, at least 16 characters: without it nobody can register or exchange KV blocks',
    defaultText: 'none: everybody who reaches the ports can',
    env: 'SVC_KV_TRANSFER_SECRET',
  }),

  maxNumBatchedTokens: option(size(1), ENGINE_DEFAULTS.maxNumBatchedTokens, {
    group: 'Scheduling',
    help: 'tokens of one step, over all requests',
    isEngineOption: true,
  }),
  maxNumSeqs: option(size(1), ENGINE_DEFAULTS.maxNumSeqs, {
    group: 'Scheduling',
    help: 'sequences that run at the same time, each sample of a request counted',
    isEngineOption: true,
  }),
  maxQueuedRequests: option(size(0), ENGINE_DEFAULTS.maxQueuedRequests, {
    group: 'Scheduling',
    help: 'sequences that may wait beside those that run; callers beyond their share of all are told to come again (429)',
  }),
  schedulingPolicy: option(choice(['fcfs', 'priority']), ENGINE_DEFAULTS.schedulingPolicy, {
    group: 'Scheduling',
    help: 'fcfs: callers and their requests take turns, each in the order of arrival; priority: requests may have a priority, and the lowest is served first',
  }),

  device: option(choice(['auto', 'cpu', 'reference', 'cuda']), ENGINE_DEFAULTS.device, {
    group: 'Hardware',
    help: 'cpu: native kernels; reference: plain TypeScript, slow; auto: cpu where it was built; cuda: not available yet',
    isEngineOption: true,
  }),
  numThreads: optional(integer(1, 1024), {
    group: 'Hardware',
    help: 'threads of the kernels',
    defaultText: 'one a physical core',
    env: 'SVC_NUM_THREADS',
    isEngineOption: true,
  }),
  cpuIsa: optional(choice(CPU_ISAS), {
    group: 'Hardware',
    help: 'instruction set of the native kernels',
    defaultText: 'the best that the processor has',
    env: 'SVC_CPU_ISA',
    isEngineOption: true,
  }),
  tensorParallelSize: option(integer(1, 1024), 1, {
    group: 'Hardware',
    help: 'parts that the model is split into (only 1 is available yet)',
    aliases: ['-tp'],
    isEngineOption: true,
  }),
  attentionBackend: optional(text('<name>'), {
    group: 'Hardware',
    help: 'how attention is computed: auto or CPU_ATTN (others are not available yet)',
    defaultText: 'auto',
    isEngineOption: true,
  }),
  attentionConfig: optional(json(), {
    group: 'Hardware',
    help: 'details of attention as JSON, or part by part: --attention-config.backend CPU_ATTN',
    defaultText: 'none',
    aliases: ['-ac'],
    isEngineOption: true,
  }),
});

export type OptionKey = (typeof SERVE_OPTIONS.keys)[number];

type Rows = typeof SERVE_OPTIONS extends OptionTable<infer R> ? R : never;

/** The checked value of every option. */
export type OptionValues = OptionTableValues<Rows>;
