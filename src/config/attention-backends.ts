// How attention may be computed: which of the names that the protocol knows run here, on which device, and what the others need.

import { existsSync } from 'node:fs';
import { ConfigError, NotAvailableError } from '../errors.ts';
import type { JsonObject } from './option-kinds.ts';
import type { OptionValues } from './options.ts';
import { didYouMean } from './suggest.ts';

const NAMES = [
  'CPU_ATTN',
  'FLASH_ATTN',
  'FLASHINFER',
  'FLEX_ATTENTION',
  'TRITON_ATTN',
  'ROCM_ATTN',
  'ROCM_AITER_FA',
  'ROCM_AITER_UNIFIED_ATTN',
] as const;

type AttentionBackend = (typeof NAMES)[number];

/** Keys of --attention-config with the values that ask for nothing. */
const CONFIG_KEYS: ReadonlyMap<string, readonly unknown[]> = new Map([
  ['backend', []],
  ['use_prefill_decode_attention', [false]],
  ['flash_attn_version', []],
  ['use_cudnn_prefill', [false]],
  ['use_trtllm_attention', [false]],
  ['disable_flashinfer_prefill', [false]],
  ['disable_flashinfer_q_quantization', [false]],
  ['flash_attn_max_num_splits_for_cuda_graph', [32]],
]);

/** The device file of AMD's GPU driver. */
const ROCM_DEVICE = '/dev/kfd';

export type AttentionChoice = Pick<OptionValues, 'device' | 'attentionBackend' | 'attentionConfig'>;

/**
 * @throws ConfigError for settings that nobody knows or that contradict each other.
 * @throws NotAvailableError for what does not run here, with what it needs.
 */
export function checkAttention({ device, attentionBackend, attentionConfig }: AttentionChoice): void {
  checkKeys(attentionConfig ?? {});
  const configured = attentionConfig?.backend ?? null;
  if (attentionBackend !== null && configured !== null) {
    throw new ConfigError(
      '--attention-backend and --attention-config.backend say the same: give one of them',
      { param: 'attention-backend' },
    );
  }
  const name = attentionBackend ?? configured;
  if (name !== null) checkName(String(name), device);
}

function checkKeys(config: JsonObject): void {
  for (const [key, value] of Object.entries(config)) {
    const neutral = CONFIG_KEYS.get(key);
    if (neutral === undefined) {
      throw new ConfigError(`--attention-config: unknown key ${key}${didYouMean(key, CONFIG_KEYS.keys())}`, {
        param: 'attention-config',
      });
    }
    if (key === 'backend' || value === null || neutral.includes(value)) continue;
    throw notAvailable(
      `attention-config.${key}`,
      JSON.stringify(value),
      'is not available yet in svc: leave it out',
    );
  }
}

function checkName(given: string, device: OptionValues['device']): void {
  const wanted = given.toUpperCase();
  if (wanted === 'AUTO') return;
  const backend = NAMES.find((name) => name === wanted);
  if (backend === undefined) {
    throw new ConfigError(
      `--attention-backend: unknown backend ${given}: expected one of ${['auto', ...NAMES].join(', ')}`,
      { param: 'attention-backend' },
    );
  }
  const obstacle = device === 'cuda' ? obstacleOnCuda(backend) : obstacleOnCpu(backend);
  if (obstacle !== null) throw notAvailable('attention-backend', given, obstacle);
}

/** Null for the one that runs there. */
function obstacleOnCuda(backend: AttentionBackend): string | null {
  switch (backend) {
    case 'FLASH_ATTN':
      return null;
    case 'CPU_ATTN':
      return 'computes on the processor: use FLASH_ATTN or auto with --device cuda';
    case 'FLASHINFER':
      return 'is not available yet in svc: use FLASH_ATTN or auto';
    default:
      return `${needOf(backend)}: use FLASH_ATTN or auto`;
  }
}

function obstacleOnCpu(backend: AttentionBackend): string | null {
  switch (backend) {
    case 'CPU_ATTN':
      return null;
    case 'FLASH_ATTN':
      return 'computes on an NVIDIA GPU: give --device cuda with it, or use CPU_ATTN or auto';
    case 'FLASHINFER':
      return 'is not available yet in svc, and computes on an NVIDIA GPU: use CPU_ATTN or auto';
    default:
      return `${needOf(backend)}: use CPU_ATTN or auto`;
  }
}

function needOf(backend: AttentionBackend): string {
  if (!backend.startsWith('ROCM')) return 'needs PyTorch and its compiler, which svc runs without';
  const here = existsSync(ROCM_DEVICE) ? '' : ` and this machine has none (no ${ROCM_DEVICE});`;
  return `needs an AMD GPU,${here} svc has no kernels for one`;
}

function notAvailable(option: string, value: string, why: string): NotAvailableError {
  return new NotAvailableError(`--${option} ${value} ${why}`, { param: option });
}
