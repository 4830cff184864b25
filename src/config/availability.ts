// Which values of which options this version cannot serve: each gets an error that says so, never silence.

import { ConfigError, NotAvailableError } from '../errors.ts';
import type { Device, DTypeOption } from './engine-config.ts';
import type { JsonObject } from './option-kinds.ts';
import type { OptionValues } from './options.ts';
import { didYouMean } from './suggest.ts';

/** Attention backends that the protocol knows; the first one runs here. */
const ATTENTION_BACKENDS: readonly string[] = [
  'CPU_ATTN',
  'FLASH_ATTN',
  'FLASHINFER',
  'FLEX_ATTENTION',
  'TRITON_ATTN',
  'ROCM_ATTN',
  'ROCM_AITER_FA',
  'ROCM_AITER_UNIFIED_ATTN',
];

/** Keys of --attention-config with the values that ask for nothing. */
const ATTENTION_CONFIG: ReadonlyMap<string, readonly unknown[]> = new Map([
  ['backend', []],
  ['use_prefill_decode_attention', [false]],
  ['flash_attn_version', []],
  ['use_cudnn_prefill', [false]],
  ['use_trtllm_attention', [false]],
  ['disable_flashinfer_prefill', [false]],
  ['disable_flashinfer_q_quantization', [false]],
  ['flash_attn_max_num_splits_for_cuda_graph', [32]],
]);

type Checked = Pick<
  OptionValues,
  'sslCertReqs' | 'tensorParallelSize' | 'attentionBackend' | 'attentionConfig'
>;

/**
 * Refuses what would matter and is not there yet.
 * @throws NotAvailableError naming option, value and what to use instead.
 * @throws ConfigError for attention settings that nobody knows or that contradict each other.
 */
export function checkAvailable(values: Checked): void {
  if (values.tensorParallelSize > 1) {
    throw notAvailable('tensor-parallel-size', values.tensorParallelSize, 'use 1');
  }
  if (values.sslCertReqs === 1) {
    throw notAvailable('ssl-cert-reqs', 1, 'use 2, which needs a certificate of every client, or 0');
  }
  checkAttention(values.attentionBackend, values.attentionConfig);
}

export function availableDType(dtype: OptionValues['dtype']): DTypeOption {
  if (dtype === 'float16') {
    throw notAvailable(
      'dtype',
      dtype,
      'use auto, which computes a float16 checkpoint in bfloat16, or float32',
    );
  }
  return dtype;
}

export function availableDevice(device: OptionValues['device']): Device {
  if (device === 'cuda') throw notAvailable('device', device, 'use auto or cpu');
  return device;
}

function checkAttention(backend: string | null, config: JsonObject | null): void {
  for (const [key, value] of Object.entries(config ?? {})) {
    const neutral = ATTENTION_CONFIG.get(key);
    if (neutral === undefined) {
      throw new ConfigError(
        `--attention-config: unknown key ${key}${didYouMean(key, ATTENTION_CONFIG.keys())}`,
        { param: 'attention-config' },
      );
    }
    if (key !== 'backend' && value !== null && !neutral.includes(value)) {
      throw notAvailable(`attention-config.${key}`, value, 'leave it out');
    }
  }
  const configured = config?.backend ?? null;
  if (backend !== null && configured !== null) {
    throw new ConfigError(
      '--attention-backend and --attention-config.backend say the same: give one of them',
      { param: 'attention-backend' },
    );
  }
  checkBackendName(backend ?? configured);
}

function checkBackendName(name: unknown): void {
  const wanted = String(name).toUpperCase();
  if (name === null || wanted === 'AUTO' || wanted === ATTENTION_BACKENDS[0]) return;
  if (!ATTENTION_BACKENDS.includes(wanted)) {
    const names = ['auto', ...ATTENTION_BACKENDS];
    throw new ConfigError(
      `--attention-backend: unknown backend ${String(name)}: expected one of ${names.join(', ')}`,
      { param: 'attention-backend' },
    );
  }
  throw notAvailable('attention-backend', name, 'use auto or CPU_ATTN');
}

function notAvailable(option: string, value: unknown, instead: string): NotAvailableError {
  const shown = typeof value === 'string' ? value : JSON.stringify(value);
  return new NotAvailableError(
    `--${option} ${shown} is not available yet in this version of svc: ${instead}`,
    { param: option },
  );
}
