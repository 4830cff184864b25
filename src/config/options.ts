// The one table of the options of svc serve and new LLM: what the command line, the config file, the environment, the
// help and the reference page know about an option, they know from here.

import { CONTENT_FORMATS } from './content-formats.ts';
import { corsOptions } from './cors-options.ts';
import { cpuBind } from './cpu-bind.ts';
import { CPU_ISAS } from './cpu-isa.ts';
import {
  CONVERSIONS,
  LOAD_FORMATS,
  QUANTIZATIONS,
  type Quantization,
  REASONING_PARSERS,
  RUNNERS,
  TENSOR_PARALLEL_SIZES,
  TOOL_CALL_PARSERS,
} from './engine-config.ts';
import { type LoraModule, loraModules } from './lora-config.ts';
import { hosts } from './media-limits.ts';
import {
  choice,
  flag,
  integer,
  json,
  type Kind,
  keys,
  list,
  multiple,
  oneOf,
  seconds,
  share,
  size,
  sizeOrAuto,
  text,
} from './option-kinds.ts';
import { engineGroup, group, OptionTable, option, optional, type ValuesOf } from './option-table.ts';

/** Other servers want to be told how a checkpoint is quantised. */
function quantization(): Kind<Quantization> {
  const kind = choice(QUANTIZATIONS);
  return {
    ...kind,
    expected: `${kind.expected} (what is published quantised, as by AWQ or GPTQ, needs none: that is known from its files)`,
  };
}

/** Heading of the options that say what is in answers, whoever asks for them. */
export const ANSWER_OPTIONS = 'Answers';

export const SERVE_OPTIONS = new OptionTable({
  ...group('General', {
    model: optional(text('<model>'), {
      help: 'folder or GGUF file of a model, or its name on the hub; the same as the argument of svc serve',
      defaultText: 'the small chat model that svc brings along',
    }),
    config: optional(text('<file>'), {
      help: 'YAML file with options: their names without dashes; flags and environment win over it',
      defaultText: 'none',
    }),
    logLevel: option(choice(['debug', 'info', 'warn', 'error', 'silent'], { warning: 'warn' }), 'info', {
      help: 'least level of what is logged',
      env: 'SVC_LOGGING_LEVEL',
    }),
  }),
  ...group('Server', {
    host: optional(text('<address>'), {
      help: 'address to listen on',
      defaultText: 'all interfaces',
    }),
    port: option(integer(0, 65535), 8000, { help: 'port to listen on; 0 takes a free one' }),
    apiKey: option<readonly string[]>(keys('<key...>'), [], {
      help: 'keys that clients may use: several values, or the option several times',
      defaultText: 'none: everybody may use the server',
      env: 'SVC_API_KEY',
      isSecret: true,
    }),
    ...corsOptions(),
    enableLogRequests: option(flag(), false, {
      help: 'log the parameters of every generation request',
    }),
    maxLogLen: optional(integer(0, 65_536), {
      help: 'with --enable-log-requests: characters, and token ids, of each prompt that are logged with it',
      defaultText: 'nothing of a text is logged',
    }),
    disableLogRequests: option(flag(), false, {
      help: 'do not log the parameters of requests, which is the default',
      aliases: ['--disable-log-request'],
    }),
    disableLogStats: option(flag(), false, {
      help: 'do not log a line of statistics every 10 seconds while there is work',
    }),
    disableUvicornAccessLog: option(flag(), false, {
      help: 'no line in the log for a request that was answered; what is refused is logged still',
    }),
    uvicornLogLevel: optional(
      choice(['debug', 'info', 'warn', 'error', 'silent'], {
        trace: 'debug',
        warning: 'warn',
        critical: 'error',
      }),
      {
        help: 'least level of what is logged about HTTP requests',
        defaultText: '--log-level',
      },
    ),
    rootPath: optional(text('<path>'), {
      help: 'path in front of every route, as a gateway may send it: /api answers /api/v1/models and /v1/models',
      defaultText: 'none',
    }),
    otlpTracesEndpoint: optional(text('<url>'), {
      help: 'collector of OpenTelemetry that gets a trace of every request, over OTLP/HTTP: http://localhost:4318',
      defaultText: 'none',
      env: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    }),
    ui: option(flag(), true, { help: 'a page at / with a playground and a dashboard; --no-ui has none' }),
    streamInterval: option(integer(1), 1, {
      help: 'tokens of each event of a stream; the first token and the end are sent at once. Requests may say it too (stream_interval)',
    }),
    enableForceIncludeUsage: option(flag(), false, {
      help: 'tell the usage in every chunk of every stream, and at its end, without being asked for it',
    }),
    enableTokenizerInfoEndpoint: option(flag(), false, {
      help: 'answer GET /tokenizer_info: special tokens and chat template',
    }),
    disableFastapiDocs: option(flag(), false, {
      help: 'leave out GET /openapi.json and the page GET /docs',
    }),
    requestTimeout: option(seconds(), 0, {
      help: 'how long a request may take, waiting included, before it is ended with an error (504); 0 is no limit',
    }),
    shutdownTimeout: option(seconds(), 30, {
      help: 'how long running requests may take to finish after SIGTERM or SIGINT',
    }),
  }),
  ...group(ANSWER_OPTIONS, {
    servedModelName: option<readonly string[]>(list('<name...>'), [], {
      help: 'names under which clients ask for the model; the first one is in the answers',
      defaultText: 'the model as given',
    }),
    enablePromptTokensDetails: option(flag(), true, {
      help: 'tell in the usage how many tokens of the prompt came from the prefix cache',
    }),
    trustRequestChatTemplate: option(flag(), false, {
      help: 'let requests bring a chat template of their own (chat_template); it runs in a thread with limits of time and memory',
    }),
    defaultChatTemplateKwargs: optional(json(), {
      help: 'variables of the chat template that a request does not set in chat_template_kwargs',
      defaultText: 'none',
    }),
    responseRole: option(text('<role>'), 'assistant', { help: 'role of the answers of chats' }),
    returnTokensAsTokenIds: option(flag(), false, {
      help: 'spell tokens of log-probabilities as token_id:<n> where a request does not say it',
    }),
  }),
  ...group('TLS', {
    sslCertfile: optional(text('<file>'), {
      help: 'certificate of the server, PEM: the server speaks HTTPS then',
      defaultText: 'none: plain HTTP',
    }),
    sslKeyfile: optional(text('<file>'), {
      help: 'private key of --ssl-certfile, PEM',
      defaultText: 'in --ssl-certfile',
    }),
    sslCaCerts: optional(text('<file>'), {
      help: 'authorities whose client certificates are accepted, PEM; for --ssl-cert-reqs 2',
      defaultText: 'none',
    }),
    sslCertReqs: option(integer(0, 2), 0, {
      help: 'certificates of clients: 0 asks for none, 2 needs one (1 is not available yet)',
    }),
  }),
  ...engineGroup('Model', {
    tokenizer: optional(text('<model>'), {
      help: 'folder, GGUF file, or name on the hub, that holds the tokenizer and the chat template',
      defaultText: 'that of the model',
    }),
    revision: optional(text('<name>'), {
      help: 'branch, tag or commit of the model on the hub',
      defaultText: 'the main branch',
    }),
    downloadDir: optional(text('<folder>'), {
      help: 'where models from the hub are kept',
      defaultText: 'the cache of the hub, see HF_HOME',
    }),
    dtype: option(
      choice(['auto', 'float32', 'bfloat16', 'float16'], { float: 'float32', half: 'float16' }),
      'auto',
      {
        help: 'format of weights and activations; auto is that of the checkpoint. Processors have no float16, and compute in bfloat16 in its place',
      },
    ),
    quantization: optional(quantization(), {
      help:
        'quantise the weights while they are read: int8 and fp8 take half the memory of bfloat16, int4 a third. What is published ' +
        'quantised may become int8, in which prompts and many sequences take less time',
      aliases: ['-q'],
      defaultText: 'none',
    }),
    packedCache: optional(text('<folder>'), {
      help: 'keep the weights in this folder as the kernels read them: the next start of the same model need not pack them',
      defaultText: 'none: each start packs them',
    }),
    packedCacheSize: option(size(1), 2 ** 36, {
      help: 'bytes that --packed-cache may take: what was not used for the longest time is removed',
      defaultText: '64G',
    }),
    loadFormat: option(choice(LOAD_FORMATS), 'auto', {
      help: 'what the weights are read from; auto takes what is there, dummy makes random ones in the shape of config.json, for measuring',
    }),
    hfOverrides: optional(json(), {
      help: 'fields over those of config.json, as JSON, or part by part: --hf-overrides.rope_parameters.factor 4',
      defaultText: 'none',
    }),
    runner: option(choice(RUNNERS), 'auto', {
      help: 'what the model is served as: one that generates text, or pooling: one that makes embeddings or scores; auto is what its files say',
    }),
    convert: option(choice(CONVERSIONS), 'auto', {
      help: 'what a model is turned into that its files describe as another: embed for embeddings, classify for scores by its logits of "yes" and "no", none for text',
    }),
    maxModelLen: optional(sizeOrAuto(1), {
      help: 'longest sequence, prompt and answer together, in tokens; auto is the longest up to the limit of the model that the memory has room for',
      defaultText: "the model's own limit",
    }),
    seed: option(integer(0), 0, { help: 'seed of requests that bring none' }),
    generationConfig: option(text('<source>'), 'auto', {
      help: "where sampling defaults come from: auto (the model's generation_config.json), svc (no such defaults) or a folder",
    }),
    overrideGenerationConfig: optional(json(), {
      help: 'sampling defaults over those of --generation-config, in the spelling of generation_config.json; max_new_tokens is a limit on every answer',
      defaultText: 'none',
    }),
    maxLogprobs: option(integer(-1), 20, {
      help: 'most log-probabilities a token that a request may ask for; -1 is no limit',
    }),
    skipTokenizerInit: option(flag(), false, {
      help: 'load no tokenizer: token ids in, token ids out',
    }),
    chatTemplate: optional(text('<template>'), {
      help: 'chat template in place of the one that the model brings: a file, or the Jinja text itself in one line',
      defaultText: "the model's own",
    }),
    chatTemplateContentFormat: option(choice(CONTENT_FORMATS), 'auto', {
      help: 'how the chat template gets the content of a message: string (parts are joined by line ends), openai (a list of parts); auto tries what it can write',
    }),
    toolCallParser: optional(choice(TOOL_CALL_PARSERS), {
      help: 'how the model writes calls of functions; none leaves them in the text',
      defaultText: 'as the chat template shows',
    }),
    reasoningParser: optional(choice(REASONING_PARSERS), {
      help: 'how the model writes its thoughts; none leaves them in the text',
      defaultText: 'as the chat template shows',
    }),
    trustRemoteCode: option(flag(), false, {
      help: 'accepted and without effect: svc runs no code from model folders',
    }),
  }),
  ...engineGroup('Images', {
    limitMmPerPrompt: optional(json(), {
      help: 'images that one prompt may have, of models that see: {"image": 4}, or --limit-mm-per-prompt.image 4; 0 takes none',
      defaultText: '{"image": 16}',
    }),
    mmProcessorKwargs: optional(json(), {
      help: 'how large images are to the model, which wins over its files: {"max_pixels": 1003520} of Qwen-VL, {"size": {"longest_edge": 1024}} of Mistral 3, SmolVLM and Idefics 3, {"max_soft_tokens": 140} of Gemma 4, {"max_image_tokens": 128} of LFM2-VL, {"max_patches": 4} or {"max_dynamic_patch": 4} of InternVL; fewer pixels are fewer tokens',
      defaultText: 'as the files of the model say',
    }),
    allowedMediaDomains: option<readonly string[]>(hosts(), [], {
      help: 'the only hosts that images are fetched from, such as images.example.com or 10.0.0.7; those named here may be of private networks',
      defaultText: 'all that are on the public web',
    }),
  }),
  ...engineGroup('Memory', {
    blockSize: option(multiple(16, 256), 16, { help: 'tokens of a KV cache block' }),
    gpuMemoryUtilization: option(share(), 0.9, {
      help: 'share of the memory that svc may use: of all that a GPU has, on a processor of what is free beside the weights and 1 GiB (or half, where less than 2 GiB is free) for everything else',
    }),
    kvCacheDtype: option(
      choice(['auto', 'bf16', 'fp8', 'int8'], { bfloat16: 'bf16', fp8_e4m3: 'fp8' }),
      'auto',
      {
        help: 'format of keys and values: fp8 (e4m3, without scales) and int8 (a scale for each token and head) hold twice the tokens of bf16; auto is that of --dtype',
      },
    ),
    kvCacheMemoryBytes: optional(size(1), {
      help: 'exact size of the KV cache in bytes, over all ranks',
      defaultText: 'from --gpu-memory-utilization',
    }),
    enablePrefixCaching: option(flag(), true, {
      help: 'keep the KV blocks of finished requests for others that begin alike; --no-enable-prefix-caching computes every prompt',
    }),
  }),
  ...group('KV transfer', {
    kvTransferConfig: optional(json(), {
      help: 'compute prompts for other instances, or decode what they computed: kv_connector, kv_role, kv_port and more as JSON, or part by part: --kv-transfer-config.kv_role kv_producer',
      defaultText: 'none: this instance does both',
      isEngineOption: true,
    }),
    kvTransferSecret: optional(text('<secret>'), {
      help: 'shared by all instances and the proxy, at least 16 characters: without it nobody can register or exchange KV blocks',
      defaultText: 'none: everybody who reaches the ports can',
      env: 'SVC_KV_TRANSFER_SECRET',
      isSecret: true,
    }),
  }),
  ...engineGroup('Scheduling', {
    maxNumBatchedTokens: option(size(1), 2048, {
      help: 'tokens of one step, over all requests',
    }),
    maxNumSeqs: option(size(1, 65_536), 256, {
      help: 'sequences that run at the same time, each sample of a request counted',
    }),
    maxQueuedRequests: option(size(0), 4096, {
      isEngineOption: false,
      help: 'sequences that may wait beside those that run; callers beyond their share of all are told to come again (429)',
    }),
    schedulingPolicy: option(choice(['fcfs', 'priority']), 'fcfs', {
      isEngineOption: false,
      help: 'fcfs: callers and their requests take turns, each in the order of arrival; priority: requests may have a priority, and the lowest is served first',
    }),
  }),
  ...engineGroup('Speculation', {
    speculativeConfig: optional(json(), {
      help: 'guess tokens ahead and verify several in one step, with the same answers: {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2}, or {"method": "draft_model", "model": "<model>"}; or part by part: --speculative-config.method ngram',
      defaultText: 'none: one token a step',
    }),
  }),
  ...engineGroup('Structured output', {
    structuredOutputsConfig: optional(json(), {
      help: 'for the JSON of all requests: {"disable_any_whitespace": true} writes it without whitespace, {"disable_additional_properties": true} keeps objects to the properties that their schema names',
      defaultText: 'as each request asks',
    }),
  }),
  ...engineGroup('Adapters', {
    loraModules: option<readonly LoraModule[]>(loraModules(), [], {
      help: 'LoRA adapters, served as further models under their names: name=folder, or {"name": "...", "path": "...", "base_model_name": "..."}; several values, or the option several times',
      defaultText: 'none',
    }),
    enableLora: option(flag(), false, {
      help: 'let adapters be loaded while the server runs; --lora-modules does the same',
    }),
    maxLoras: option(integer(1, 1024), 16, {
      help: 'adapters that may be loaded at the same time; one step may compute requests of all of them',
    }),
    maxLoraRank: option(integer(1, 512), 16, { help: 'largest rank of an adapter' }),
  }),
  ...engineGroup('Hardware', {
    device: option(choice(['auto', 'cpu', 'reference', 'cuda']), 'auto', {
      help: 'cpu: native kernels; cuda: an NVIDIA GPU (see docs/guides/gpu.md); reference: plain TypeScript, slow; auto: cuda where a GPU is there that can compute the model, else cpu',
    }),
    numThreads: optional(integer(1, 1024), {
      help: 'threads of the kernels, shared among the ranks of --tensor-parallel-size and the stages of --pipeline-parallel-size',
      defaultText: 'one a physical core',
      env: 'SVC_NUM_THREADS',
    }),
    cpuIsa: optional(choice(CPU_ISAS), {
      help: 'instruction set of the native kernels',
      defaultText: 'the best that the processor has',
      env: 'SVC_CPU_ISA',
    }),
    enforceEager: option(flag(), false, {
      help: 'with --device cuda: launch the ops of each step one by one, and make no CUDA graphs of steps that come again',
    }),
    executeModelTimeout: optional(seconds(), {
      help: 'how long a step may take before the engine counts as hung, and the process ends; 0 is no limit',
      defaultText: '300 with --device cuda, else 7200',
      env: 'SVC_EXECUTE_MODEL_TIMEOUT_SECONDS',
    }),
    tensorParallelSize: option(oneOf(TENSOR_PARALLEL_SIZES), 1, {
      help: 'ranks that the model is cut over, each with threads and memory of its own, or with --device cuda a GPU; the answers are the same',
      aliases: ['-tp'],
      env: 'SVC_TENSOR_PARALLEL_SIZE',
    }),
    pipelineParallelSize: option(integer(1, 8), 1, {
      help: 'stages that the layers are in, each with threads and memory of its own, or with --device cuda a GPU, which compute several steps at the same time; the answers are the same',
      aliases: ['-pp'],
      env: 'SVC_PIPELINE_PARALLEL_SIZE',
    }),
    cpuBind: optional(cpuBind(), {
      help: 'processors that the threads of each rank or stage of each engine are bound to, such as 0-3|4-7: a thread each; auto shares the cores, node by node; nobind binds none',
      defaultText: 'auto for several ranks or stages on several NUMA nodes, else nobind',
      env: 'SVC_CPU_BIND',
    }),
    dataParallelSize: option(integer(1, 1024), 1, {
      help: 'engines behind one port: each has a copy of the model and an equal part of the threads and of the KV memory, or with --device cuda GPUs of its own',
      aliases: ['-dp'],
    }),
    attentionBackend: optional(text('<name>'), {
      help: 'how attention is computed, with the same answers: auto, CPU_ATTN, or on a GPU FLASH_ATTN or FLASHINFER',
      defaultText: 'auto',
    }),
    attentionConfig: optional(json(), {
      help: 'details of attention as JSON, or part by part: --attention-config.backend CPU_ATTN',
      defaultText: 'none',
      aliases: ['-ac'],
    }),
  }),
});

export type OptionKey = (typeof SERVE_OPTIONS.keys)[number];

/** The checked value of every option. */
export type OptionValues = ValuesOf<typeof SERVE_OPTIONS>;
