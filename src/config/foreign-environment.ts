// Environment variables of other servers of the protocol that svc lacks, by the names that they would have here. They are
// often set for a whole machine, so none is refused: a line says what is there in its place.

const ONE_ENGINE = 'there is one engine, in a thread of this process';
const BY_DEVICE = 'it chooses among kernels of ROCm, and there are none here; see --attention-backend';

/** By name, why it has no effect. */
export const FOREIGN_VARIABLES: ReadonlyMap<string, string> = new Map([
  [
    'SVC_ALLOW_LONG_MAX_MODEL_LEN',
    'no model is served beyond the length that it was made for; see --max-model-len',
  ],
  ['SVC_ATTENTION_BACKEND', 'use --attention-backend'],
  ['SVC_CACHE_ROOT', 'use --download-dir, or the variables of the hubs'],
  [
    'SVC_COMPUTE_NANS_IN_LOGITS',
    'logits are always checked, and the request that has such ends with an error',
  ],
  ['SVC_CONFIG_ROOT', 'use --config'],
  ['SVC_CONFIGURE_LOGGING', 'use --log-level'],
  ['SVC_CPU_KVCACHE_SPACE', 'use --kv-cache-memory-bytes'],
  ['SVC_CPU_NUM_OF_RESERVED_CPU', 'use --num-threads'],
  ['SVC_CPU_OMP_THREADS_BIND', 'use --cpu-bind'],
  ['SVC_DEBUG_LOG_API_SERVER_RESPONSE', 'answers are not logged; --enable-log-requests logs requests'],
  ['SVC_DISABLE_REQUEST_ID_RANDOMIZATION', 'the id of a request is its X-Request-Id where it has one'],
  ['SVC_DO_NOT_TRACK', 'nothing is reported to anybody'],
  ['SVC_ENABLE_RESPONSES_API_STORE', 'responses are kept unless a request says store: false'],
  ['SVC_ENABLE_V1_MULTIPROCESSING', ONE_ENGINE],
  ['SVC_ENGINE_ITERATION_TIMEOUT_S', 'use --execute-model-timeout'],
  ['SVC_ENGINE_READY_TIMEOUT_S', 'a model may take any time to load'],
  ['SVC_HTTP_TIMEOUT_KEEP_ALIVE', 'the time for which idle connections are kept is fixed'],
  ['SVC_KEEP_ALIVE_ON_ENGINE_DEATH', 'the process ends with its engine, so that it can be started again'],
  ['SVC_KV_CACHE_LAYOUT', 'blocks have one layout, which attention and transfers share'],
  ['SVC_LOG_STATS_INTERVAL', 'the line of statistics comes every 10 s; --disable-log-stats leaves it out'],
  ['SVC_LOGGING_COLOR', 'use --log-level; lines have no colours'],
  ['SVC_LOGGING_CONFIG_PATH', 'use --log-level'],
  ['SVC_LOGGING_PREFIX', 'lines have no prefix'],
  ['SVC_LOGGING_STREAM', 'the log goes to stderr'],
  ['SVC_LOOPBACK_IP', 'use SVC_HOST_IP'],
  ['SVC_MAX_N_SEQUENCES', 'n is at most 128'],
  ['SVC_NIXL_ABORT_REQUEST_TIMEOUT', 'transfers are those of --kv-transfer-config'],
  ['SVC_NIXL_SIDE_CHANNEL_HOST', 'transfers are those of --kv-transfer-config'],
  ['SVC_NIXL_SIDE_CHANNEL_PORT', 'transfers are those of --kv-transfer-config'],
  ['SVC_NO_USAGE_STATS', 'nothing is reported to anybody'],
  ['SVC_ROCM_USE_AITER', BY_DEVICE],
  ['SVC_ROCM_USE_AITER_MHA', BY_DEVICE],
  ['SVC_ROCM_USE_AITER_UNIFIED_ATTENTION', BY_DEVICE],
  ['SVC_RPC_BASE_PATH', ONE_ENGINE],
  ['SVC_RPC_TIMEOUT', ONE_ENGINE],
  ['SVC_SLEEP_WHEN_IDLE', 'an idle engine sleeps'],
  ['SVC_TRACE_FUNCTION', 'use --otlp-traces-endpoint'],
  ['SVC_USE_AITER_UNIFIED_ATTENTION', BY_DEVICE],
  ['SVC_USE_MODELSCOPE', 'use SVC_USE_ALT_MODEL_HUB'],
  ['SVC_USE_V1', 'there is one engine'],
  ['SVC_V1_OUTPUT_PROC_CHUNK_SIZE', 'tokens are handed on in 2 ms of each turn of the event loop'],
  ['SVC_V1_USE_PREFILL_DECODE_ATTENTION', BY_DEVICE],
  ['SVC_WORKER_MULTIPROC_METHOD', ONE_ENGINE],
]);

/** A line for each of them that is set to something. */
export function environmentNotices(env: NodeJS.ProcessEnv): string[] {
  return [...FOREIGN_VARIABLES].flatMap(([name, reason]) =>
    env[name] ? [`the environment variable ${name} has no effect: ${reason}`] : [],
  );
}
