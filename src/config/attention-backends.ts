// How attention may be computed: which of the names that the protocol knows run here, on which device, and what the others need.

import { existsSync } from 'node:fs';
import { ConfigError, NotAvailableError } from '../errors.ts';
import type { AttentionChoice } from './engine-config.ts';
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

/** Keys of --attention-config: the values that are served, and why others are not. */
const CONFIG_KEYS: ReadonlyMap<string, { readonly served: readonly unknown[]; readonly obstacle: string }> =
  new Map([
    ['backend', { served: [], obstacle: '' }],
    [
      'use_prefill_decode_attention',
      { served: [false], obstacle: 'chooses between kernels for AMD GPUs, which svc has none of' },
    ],
    [
      'flash_attn_version',
      { served: [], obstacle: 'names kernels of a package: svc has its own, in one version' },
    ],
    ['use_cudnn_prefill', { served: [false], obstacle: 'needs cuDNN, which svc runs without' }],
    ['use_trtllm_attention', { served: [false], obstacle: 'needs TensorRT-LLM, which svc runs without' }],
    ['disable_flashinfer_prefill', { served: [false, true], obstacle: 'is true or false' }],
    // Queries are never quantised.
    ['disable_flashinfer_q_quantization', { served: [false, true], obstacle: 'is true or false' }],
    [
      'flash_attn_max_num_splits_for_cuda_graph',
      {
        served: [32],
        obstacle: 'cannot be chosen: contexts are split at fixed positions, with graphs and without',
      },
    ],
  ]);

/** The device file of AMD's GPU driver. */
const ROCM_DEVICE = '/dev/kfd';

/**
 * @throws ConfigError for settings that nobody knows or that contradict each other.
 * @throws NotAvailableError for what does not run here, with what it needs.
 */
export function chooseAttention({
  device,
  attentionBackend,
  attentionConfig,
}: Pick<OptionValues, 'device' | 'attentionBackend' | 'attentionConfig'>): AttentionChoice {
  checkKeys(attentionConfig ?? {});
  const configured = attentionConfig?.backend ?? null;
  if (attentionBackend !== null && configured !== null) {
    throw new ConfigError(
      '--attention-backend and --attention-config.backend say the same: give one of them',
      { param: 'attention-backend' },
    );
  }
  const name = attentionBackend ?? configured;
  return {
    backend: name === null ? null : backendNamed(String(name), device),
    isForPrefill: attentionConfig?.disable_flashinfer_prefill !== true,
  };
}

/**
 * With `--device auto`, where it turns out that no GPU computes.
 * @param why as the end of a sentence; empty where there is none
 * @throws NotAvailableError where `backend` needs one.
 */
export function expectNoGpuBackend({ backend }: AttentionChoice, why: string): void {
  if (backend === null || backend === 'CPU_ATTN') return;
  throw unable(
    backend,
    `computes on an NVIDIA GPU, and this machine has none to use${why}: use CPU_ATTN or auto`,
  );
}

function checkKeys(config: JsonObject): void {
  for (const [key, value] of Object.entries(config)) {
    const known = CONFIG_KEYS.get(key);
    if (known === undefined) {
      throw new ConfigError(`--attention-config: unknown key ${key}${didYouMean(key, CONFIG_KEYS.keys())}`, {
        param: 'attention-config',
      });
    }
    if (key === 'backend' || value === null || known.served.includes(value)) continue;
    throw notAvailable(`attention-config.${key}`, JSON.stringify(value), `${known.obstacle}: leave it out`);
  }
}

function backendNamed(given: string, device: OptionValues['device']): AttentionChoice['backend'] {
  const wanted = given.toUpperCase();
  if (wanted === 'AUTO') return null;
  const backend = NAMES.find((name) => name === wanted);
  if (backend === undefined) {
    throw new ConfigError(
      `--attention-backend: unknown backend ${given}: expected one of ${['auto', ...NAMES].join(', ')}`,
      { param: 'attention-backend' },
    );
  }
  const isOnCuda = device === 'cuda';
  switch (backend) {
    case 'CPU_ATTN':
      if (!isOnCuda) return backend;
      throw unable(given, 'computes on the processor: use FLASH_ATTN, FLASHINFER or auto with --device cuda');
    case 'FLASH_ATTN':
    case 'FLASHINFER':
      if (isOnCuda || device === 'auto') return backend;
      throw unable(given, 'computes on an NVIDIA GPU: give --device cuda with it, or use CPU_ATTN or auto');
    default:
      throw unable(
        given,
        `${needOf(backend)}: use ${isOnCuda ? 'FLASH_ATTN, FLASHINFER' : 'CPU_ATTN'} or auto`,
      );
  }
}

function unable(given: string, why: string): NotAvailableError {
  return notAvailable('attention-backend', given, why);
}

function needOf(backend: AttentionBackend): string {
  if (!backend.startsWith('ROCM')) return 'needs PyTorch and its compiler, which svc runs without';
  const here = existsSync(ROCM_DEVICE) ? '' : ` and this machine has none (no ${ROCM_DEVICE});`;
  return `needs an AMD GPU,${here} svc has no kernels for one`;
}

function notAvailable(option: string, value: string, why: string): NotAvailableError {
  return new NotAvailableError(`--${option} ${value} ${why}`, { param: option });
}
