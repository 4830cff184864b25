// Options of other servers of the protocol that svc lacks. An option without effect here is accepted with a line that
// says why; any other is refused with an alternative. So commands written for those servers run, or say what to change,
// and no such option is taken for a mistyped name.

import { NotAvailableError } from '../errors.ts';

/** The value that a flag takes; `json` may also be given part by part: `--compilation-config.level 3`. */
type Takes = 'nothing' | 'value' | 'values' | 'json';

export interface ForeignOption {
  /** All spellings, with their dashes; the first is the usual one. */
  readonly flags: readonly string[];
  readonly takes: Takes;
  /** Values that ask for nothing here. */
  readonly accepts: 'anything' | readonly string[];
  /** What there is in svc in its place. */
  readonly reason: string;
  /** What to do where it is refused. */
  readonly instead: string;
  /** Whether its value is never shown. */
  readonly isSecret?: boolean;
}

export function harmless(flags: string, takes: Takes, reason: string): ForeignOption {
  return { flags: flags.split(' '), takes, accepts: 'anything', reason, instead: '' };
}

/** @param accepts values that are accepted all the same; that a flag is off always is. */
export function refused(
  flags: string,
  takes: Takes,
  reason: string,
  instead: string,
  accepts: readonly string[] = [],
): ForeignOption {
  const off = takes === 'nothing' ? ['false'] : [];
  return { flags: flags.split(' '), takes, accepts: [...accepts, ...off], reason, instead };
}

const IMAGES_ALIKE = 'models here read images beside text, in one way, and write text';
const ONE_PROCESS = 'one process on one machine computes the model';
const MORE_INSTANCES = 'start more instances behind svc proxy';
const SHARED_EXPERTS =
  'ranks of --tensor-parallel-size always share the experts of a layer, the same ones at all times';
const WITHOUT = 'leave it out';
const USE_METRICS = 'leave it out and read /metrics';
const GRAPHS_LATER =
  'kernels are compiled ahead; on a GPU decode steps that come again become CUDA graphs while they are served (--enforce-eager makes none)';
const FLOAT32_STATES = 'layers that keep a state of each sequence (Mamba) keep it in float32, whole';
const PREFILL_SHARE = 'prompts share a step as far as --max-num-batched-tokens goes';

export const FOREIGN_OPTIONS: readonly ForeignOption[] = [
  // Server.
  refused('--headless', 'nothing', ONE_PROCESS, MORE_INSTANCES),
  refused('--api-server-count -asc', 'value', 'one process answers', MORE_INSTANCES, ['1']),
  refused('--grpc', 'nothing', 'svc speaks HTTP only', WITHOUT),
  refused('--uds', 'value', 'svc listens on TCP only', 'use --host 127.0.0.1'),
  harmless(
    '--disable-access-log-for-endpoints',
    'value',
    'lines for /health, /ping, /load and /metrics are of level debug already; --disable-uvicorn-access-log leaves out all',
  ),
  refused('--enable-ssl-refresh', 'nothing', 'certificates are read at start', 'restart when they change'),
  refused(
    '--ssl-ciphers',
    'value',
    'the ciphers are those of Node',
    'set NODE_OPTIONS=--tls-cipher-list=<ciphers>',
  ),
  refused('--middleware', 'value', 'svc runs no Python', 'put a gateway in front'),
  harmless('--disable-frontend-multiprocessing', 'nothing', 'server and engine are one process already'),
  harmless('--enable-request-id-headers', 'nothing', 'every answer carries X-Request-Id'),
  harmless(
    '--enable-auto-tool-choice',
    'nothing',
    'models may choose to call functions wherever their format is known; --tool-call-parser names it',
  ),
  refused('--tool-parser-plugin', 'value', 'svc runs no Python', 'choose one of --tool-call-parser'),
  refused('--reasoning-parser-plugin', 'value', 'svc runs no Python', 'choose one of --reasoning-parser'),
  refused('--tool-server', 'value', 'clients call the functions themselves', WITHOUT),
  harmless(
    '--exclude-tools-when-tool-choice-none',
    'nothing',
    'tools that must not be called are never shown to the model',
  ),
  refused('--log-config-file', 'value', 'the log goes to stderr, a line an event', 'use --log-level'),
  harmless('--enable-offline-docs', 'nothing', 'the page at /docs loads nothing from elsewhere'),
  harmless('--enable-server-load-tracking', 'nothing', 'GET /load always counts'),
  refused('--enable-log-outputs', 'nothing', 'texts of answers are never logged', WITHOUT),
  harmless('--h11-max-incomplete-event-size', 'value', 'the HTTP parser is another: headers may have 16 KiB'),
  harmless('--h11-max-header-count', 'value', 'the HTTP parser is another: headers may have 16 KiB'),
  harmless('--log-error-stack', 'nothing', 'faults of the server are always logged with their stack'),
  refused('--tokens-only', 'nothing', 'it has another name here', 'use --skip-tokenizer-init'),
  refused('--enable-per-request-metrics', 'nothing', 'metrics are of the whole server', USE_METRICS),

  // Model.
  refused('--task', 'value', 'it has another name here', 'use --runner', ['auto', 'generate']),
  refused(
    '--pooler-config',
    'json',
    'what is pooled is said by the files of the model',
    'put it into modules.json and 1_Pooling/config.json',
  ),
  refused('--tokenizer-mode', 'value', 'tokenizer.json is the one form that is read', 'use auto', [
    'auto',
    'hf',
  ]),
  refused(
    '--tokenizer-revision',
    'value',
    'the tokenizer comes from --revision or its main branch',
    'name it behind the tokenizer: --tokenizer org/name@revision',
  ),
  refused(
    '--logprobs-mode',
    'value',
    'log-probabilities are those of the model, before penalties and temperature',
    'use raw_logprobs',
    ['raw_logprobs'],
  ),
  refused(
    '--disable-sliding-window',
    'nothing',
    'a model with a window is computed with it',
    'lower --max-model-len to the window',
  ),
  harmless('--disable-cascade-attn', 'nothing', 'there is no cascade attention'),
  refused('--enable-prompt-embeds', 'nothing', 'prompts are texts or token ids', WITHOUT),
  refused('--config-format', 'value', 'config.json is the one form that is read', 'use auto', ['auto', 'hf']),
  refused('--hf-config-path', 'value', 'the configuration lies beside the weights', WITHOUT),
  {
    ...refused('--hf-token', 'value', 'other users of the machine see command lines', 'set HF_TOKEN'),
    isSecret: true,
  },
  refused('--enable-sleep-mode', 'nothing', 'a server cannot give up its weights', 'stop it and start it'),
  refused('--model-impl', 'value', 'there is one implementation of a model', 'use auto', ['auto', 'svc']),
  refused('--logits-processors', 'values', 'svc runs no Python', WITHOUT),
  harmless('--code-revision', 'value', 'svc runs no code from model folders'),
  harmless(
    '--allowed-local-media-path',
    'value',
    'requests bring images or their addresses, and name no files of the server',
  ),
  harmless('--safetensors-load-strategy', 'value', 'weights are packed while they are read'),
  refused('--model-loader-extra-config', 'json', 'there is one loader', WITHOUT, ['{}']),
  harmless('--ignore-patterns', 'values', 'only files that svc reads are downloaded'),
  harmless('--use-tqdm-on-load', 'nothing', 'loading shows a bar on a terminal and lines elsewhere'),
  harmless('--pt-load-map-location', 'value', 'weights are read from *.safetensors'),

  // Several devices and machines.
  refused('--data-parallel-rank -dpn', 'value', ONE_PROCESS, MORE_INSTANCES, ['0']),
  refused('--data-parallel-start-rank -dpr', 'value', ONE_PROCESS, MORE_INSTANCES, ['0']),
  refused('--data-parallel-size-local -dpl', 'value', ONE_PROCESS, 'use --data-parallel-size', ['1']),
  refused('--data-parallel-address -dpa', 'value', ONE_PROCESS, MORE_INSTANCES),
  refused('--data-parallel-rpc-port -dpp', 'value', ONE_PROCESS, MORE_INSTANCES),
  harmless('--data-parallel-backend -dpb', 'value', ONE_PROCESS),
  refused('--data-parallel-hybrid-lb -dph', 'nothing', ONE_PROCESS, MORE_INSTANCES),
  refused('--data-parallel-external-lb -dpe', 'nothing', ONE_PROCESS, MORE_INSTANCES),
  refused('--decode-context-parallel-size -dcp', 'value', ONE_PROCESS, 'use 1', ['1']),
  harmless('--distributed-executor-backend', 'value', ONE_PROCESS),
  harmless('--enable-expert-parallel -ep', 'nothing', SHARED_EXPERTS),
  harmless('--all2all-backend', 'value', SHARED_EXPERTS),
  harmless('--enable-eplb', 'nothing', SHARED_EXPERTS),
  harmless('--eplb-config', 'json', SHARED_EXPERTS),
  harmless('--disable-custom-all-reduce', 'nothing', ONE_PROCESS),
  harmless('--max-parallel-loading-workers', 'value', ONE_PROCESS),
  refused('--worker-cls', 'value', 'svc runs no Python', WITHOUT, ['auto']),
  refused('--nnodes', 'value', ONE_PROCESS, 'use 1', ['1']),
  refused('--node-rank', 'value', ONE_PROCESS, 'use 0', ['0']),
  harmless('--master-addr', 'value', ONE_PROCESS),
  harmless('--master-port', 'value', ONE_PROCESS),

  // Memory.
  harmless(
    '--swap-space',
    'value',
    'a request that gives up its KV blocks is computed again; nothing is swapped',
  ),
  refused(
    '--num-gpu-blocks-override',
    'value',
    'the KV cache is sized in bytes',
    'use --kv-cache-memory-bytes',
  ),
  harmless('--prefix-caching-hash-algo', 'value', 'cached blocks are named by SHA-256'),
  harmless(
    '--cpu-offload-gb',
    'value',
    'weights are where they are computed with: in main memory, or all on the GPU',
  ),
  harmless('--calculate-kv-scales', 'nothing', 'int8 has a scale for each token, and fp8 has none'),
  refused(
    '--kv-offloading-size',
    'value',
    'there is one KV cache',
    'make it larger with --kv-cache-memory-bytes',
    ['0'],
  ),
  harmless('--kv-offloading-backend', 'value', 'there is one KV cache'),
  harmless('--mamba-cache-dtype', 'value', FLOAT32_STATES),
  harmless('--mamba-ssm-cache-dtype', 'value', FLOAT32_STATES),
  harmless('--mamba-block-size', 'value', FLOAT32_STATES),

  // Adapters.
  harmless('--max-cpu-loras', 'value', 'all adapters that are loaded are in memory; --max-loras bounds them'),
  refused('--lora-dtype', 'value', 'adapters are computed in the format of the model', 'use auto', ['auto']),
  harmless('--fully-sharded-loras', 'nothing', ONE_PROCESS),
  refused('--default-mm-loras', 'json', IMAGES_ALIKE, WITHOUT),

  // Scheduling.
  harmless(
    '--enable-chunked-prefill',
    'nothing',
    'prompts are always computed in chunks; --max-num-batched-tokens sets their size',
  ),
  harmless('--max-num-partial-prefills', 'value', PREFILL_SHARE),
  harmless('--max-long-partial-prefills', 'value', PREFILL_SHARE),
  harmless('--long-prefill-token-threshold', 'value', PREFILL_SHARE),
  harmless('--disable-chunked-mm-input', 'nothing', IMAGES_ALIKE),
  refused('--scheduler-cls', 'value', 'svc runs no Python', 'see --scheduling-policy'),
  harmless(
    '--disable-hybrid-kv-cache-manager',
    'nothing',
    'layers with a window always keep the blocks that it reaches, and others all',
  ),
  harmless('--async-scheduling', 'nothing', 'steps are always planned while the one before runs'),

  // Compilation, measurement and hardware.
  harmless('--compilation-config -cc', 'json', GRAPHS_LATER),
  harmless('--optimization-level -O', 'value', GRAPHS_LATER),
  harmless('-O0 -O1 -O2 -O3', 'nothing', GRAPHS_LATER),
  harmless('--performance-mode', 'value', 'there is one way to run'),
  harmless('--additional-config', 'json', 'it is for hardware that svc does not know'),
  harmless('--show-hidden-metrics-for-version', 'value', 'no metric is hidden'),
  harmless('--collect-detailed-traces', 'values', 'traces have the same spans always'),
  refused(
    '--kv-cache-metrics',
    'nothing',
    'the life of KV blocks is not measured',
    'leave it out and read /metrics',
  ),
  harmless('--kv-cache-metrics-sample', 'value', 'the life of KV blocks is not measured'),
  harmless('--cudagraph-metrics', 'nothing', 'CUDA graphs are not counted'),
  refused('--enable-layerwise-nvtx-tracing', 'nothing', 'svc runs no profiler', WITHOUT),
  refused('--enable-logging-iteration-details', 'nothing', 'single steps are not logged', USE_METRICS),
  refused('--profiler-config', 'json', 'there is no profiler inside', 'use node --cpu-prof or perf'),

  // Exchange with other programs.
  refused('--kv-events-config', 'json', 'changes of the KV cache are not published', WITHOUT),
  refused('--ec-transfer-config', 'json', IMAGES_ALIKE, WITHOUT),
  refused(
    '--weight-transfer-config',
    'json',
    'weights are loaded at start only',
    'restart with the new model',
  ),

  // Other things than text.
  harmless('--media-io-kwargs', 'json', IMAGES_ALIKE),
  harmless('--mm-processor-cache-gb', 'value', IMAGES_ALIKE),
  harmless('--mm-encoder-tp-mode', 'value', IMAGES_ALIKE),
  harmless('--skip-mm-profiling', 'nothing', IMAGES_ALIKE),
  harmless('--interleave-mm-strings', 'nothing', IMAGES_ALIKE),
  harmless('--video-pruning-rate', 'value', IMAGES_ALIKE),
];

/** A flag that svc does not have, as it was found. */
export interface ForeignFlag {
  readonly option: ForeignOption;
  /** As it was written, for messages: `--no-enable-lora`, `svc.yaml:3:1 (swap-space)`. */
  readonly origin: string;
  /** `true` or `false` for one that takes nothing. */
  readonly value: string;
  /** What a program calls it; elsewhere it is called by its usual flag. */
  readonly param?: string;
}

/**
 * The option that `flag` names, written with dashes or underscores, and whether it was written with `--no-`; null where
 * nobody has such an option.
 */
export type FindForeign = (flag: string) => { option: ForeignOption; isNegated: boolean } | null;

export function findIn(options: readonly ForeignOption[]): FindForeign {
  const byFlag = new Map(options.flatMap((option) => option.flags.map((flag) => [flag, option])));
  return (flag) => {
    const dashed = flag.startsWith('--') ? flag.replaceAll('_', '-') : flag;
    const option = byFlag.get(dashed);
    if (option !== undefined) return { option, isNegated: false };
    const negated = dashed.startsWith('--no-') ? byFlag.get(`--${dashed.slice('--no-'.length)}`) : undefined;
    return negated?.takes === 'nothing' ? { option: negated, isNegated: true } : null;
  };
}

export const findForeign = findIn(FOREIGN_OPTIONS);

/**
 * What to tell about a flag that svc does not have and that asks for nothing here.
 * @throws NotAvailableError naming reason and remedy, where it asks for something.
 */
export function foreignNotice({ option, origin, value, param }: ForeignFlag): string {
  const { accepts, reason, instead } = option;
  const isShown = option.takes !== 'nothing' && !option.isSecret;
  const shown = isShown ? `${origin} ${value}` : origin;
  if (accepts === 'anything' || accepts.includes(value.toLowerCase())) {
    return `${shown} has no effect: ${reason}`;
  }
  throw new NotAvailableError(`${shown} is not available in svc: ${reason}; ${instead}`, {
    param: param ?? option.flags[0]?.replace(/^-+/, ''),
  });
}

/**
 * The option `name` as a config file or a program gives it: `enforce-eager`, `enforce_eager`, `enforceEager`; null where
 * nobody has such an option.
 */
export function foreignOption(name: string, value: unknown, origin: string): ForeignFlag | null {
  const dashed = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const found = findForeign(`--${dashed.split('.')[0]}`);
  if (found === null) return null;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return { option: found.option, origin, value: found.isNegated ? 'false' : text };
}
