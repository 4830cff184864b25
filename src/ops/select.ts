// Picks the backend: the native one where its addon loads, else plain TypeScript. The one place that knows both.

import os from 'node:os';
import { expectNoGpuBackend } from '../config/attention-backends.ts';
import { expectNoF16 } from '../config/availability.ts';
import { multipliesWholeCodes } from '../config/cpu-isa.ts';
import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError, NativeAddonError } from '../errors.ts';
import { chooseIsa, loadNative, type Native, probeNative } from '../native/native.ts';
import type { HalfDType } from './dtype.ts';
import { openCpuDevice } from './native/cpu-device.ts';
import { type GpuPlace, missingForCuda, openCudaDevice } from './native/cuda-device.ts';
import { NativeOps } from './native/native-ops.ts';
import { openRankGroup as openNativeGroup } from './native/rank-group.ts';
import type { Ops } from './ops.ts';
import { ALONE, type RankGroup, type RankPlace, type RankSeat } from './ranks.ts';
import { ReferenceOps } from './reference/reference-ops.ts';

interface SelectedOps {
  readonly ops: Ops;
  /** Why this backend, for the start-up report. */
  readonly reason: string;
  /** What a person should know of the choice; null where there is nothing. */
  readonly warning: string | null;
  /** What to compute on where the device lacks what the model needs; left out where nothing else may. */
  readonly otherwise?: (why: string) => SelectedOps;
}

/** Backends of the stages of a model, the first stage first: one where it is in one piece. */
export interface SelectedStages extends Omit<SelectedOps, 'ops' | 'otherwise'> {
  readonly stages: readonly Ops[];
  /** For a draft model: what the whole model is computed on, or where there are several parts of it one that is alone. */
  readonly draft: Ops | null;
  readonly otherwise?: (why: string) => SelectedStages;
}

/** The part of the configuration that is about hardware. */
type DeviceOptions = Pick<
  EngineConfig,
  | 'device'
  | 'pipelineParallelSize'
  | 'dataParallelSize'
  | 'share'
  | 'numThreads'
  | 'cpuBind'
  | 'cpuIsa'
  | 'enforceEager'
  | 'attention'
  | 'dtype'
> & {
  /** The numbers of 16 bits that the model is to be computed with, where the device has them; left out, bf16. */
  readonly half?: HalfDType;
};
type StageOptions = DeviceOptions & Pick<EngineConfig, 'speculative'>;

/** Longer than any step: a rank waits for the tokens of rank 0, which may be waiting for a constraint. */
const RANK_DEADLINE_MS = 120_000;

/**
 * Whether the processor keeps codes with as many bits as they were published with.
 * @throws ConfigError for an instruction set that it lacks.
 */
export function keepsCodeBits({ cpuIsa }: Pick<EngineConfig, 'cpuIsa'>): boolean {
  const native = probeNative();
  return native !== null && multipliesWholeCodes(chooseIsa(native, cpuIsa));
}

/**
 * Opens a group of 2, 4 or 8 ranks.
 * @param deadlineMs how long a rank waits for the others in one op
 * @throws NativeAddonError where the addon does not load: plain TypeScript has no ranks.
 */
export function openRankGroup(size: number, deadlineMs = RANK_DEADLINE_MS): RankGroup {
  return openNativeGroup(loadNative(), size, deadlineMs);
}

/**
 * @param seat among the ranks of one model; left out where the backend is to be alone
 * @throws NativeAddonError when `device` is cpu or cuda and the addon does not load; ConfigError for a GPU that is not there, an
 *   instruction set or a number of threads that this machine cannot do, or ranks of a device that has none.
 */
export function selectOps(options: DeviceOptions, seat?: RankSeat): SelectedOps {
  return seat === undefined ? selectAlone(options) : selectRank(options, seat);
}

/**
 * Backends for the stages of a model, or of the slice of it that a rank has, each with its share of the threads, or a GPU of its own.
 * Those whose ops wait for others come later: they are to be closed in this order.
 * @param seats of the rank, one for each stage; left out where there are no other ranks
 * @throws as `selectOps`, and ConfigError for fewer threads or GPUs than stages.
 */
export function selectStages(options: StageOptions, seats?: readonly RankSeat[]): SelectedStages {
  const { pipelineParallelSize: numStages, speculative } = options;
  const guesses = speculative?.method === 'draft_model' && (seats?.[0]?.rank ?? 0) === 0;
  if (numStages === 1 && seats === undefined) return inOnePiece(selectAlone(options), guesses);
  const opened: Ops[] = [];
  try {
    const stages = Array.from({ length: numStages }, (_, stage) => {
      const selected = selectStage(options, stage, seats?.[stage]);
      opened.push(selected.ops);
      return selected;
    });
    const draft = guesses ? selectBeside(options, seats?.[0]) : null;
    const { reason, warning } = stages[0]!;
    return { stages: stages.map(({ ops }) => ops), draft, reason, warning };
  } catch (error) {
    for (const ops of opened) ops.close();
    throw error;
  }
}

function inOnePiece({ ops, reason, warning, otherwise }: SelectedOps, guesses: boolean): SelectedStages {
  return {
    stages: [ops],
    draft: guesses ? ops : null,
    reason,
    warning,
    ...(otherwise && { otherwise: (why) => inOnePiece(otherwise(why), guesses) }),
  };
}

function selectStage(options: StageOptions, stage: number, seat?: RankSeat): SelectedOps {
  const { device, pipelineParallelSize: numStages } = options;
  if (numStages === 1 || device === 'reference') return selectOps(options, seat);
  const reason = `asked for by --pipeline-parallel-size ${numStages}`;
  if (device === 'cuda') return openCuda(options, reason, stage, seat);
  const native = loadNative();
  expectNoGpuBackend(options.attention, '');
  return openCpu(native, options, reason, seat, placeOf(stage, numStages, seat));
}

/** The ranks of a stage exchange far more than the stages do: they are beside each other. */
function placeOf(stage: number, numStages: number, { rank, size }: RankPlace = ALONE): RankPlace {
  return { rank: stage * size + rank, size: numStages * size };
}

/**
 * A backend beside the last stage of rank 0 that waits for no other. While it computes that stage does not, whose processors, or GPU, it gets
 * therefore.
 */
function selectBeside(options: StageOptions, seat?: RankSeat): Ops {
  const { device, pipelineParallelSize: numStages } = options;
  if (device === 'reference') return new ReferenceOps(options.half);
  if (device === 'cuda') return openCudaBeside(options, numStages - 1, seat);
  return openCpu(loadNative(), options, '', undefined, placeOf(numStages - 1, numStages, seat)).ops;
}

function selectRank(options: DeviceOptions, seat: RankSeat): SelectedOps {
  if (options.device === 'reference') {
    throw new ConfigError(
      'several ranks are not available with --device reference: use --device cpu or cuda',
      { param: 'tensor-parallel-size' },
    );
  }
  if (options.device === 'cuda') return openCuda(options, `rank ${seat.rank} of ${seat.size}`, 0, seat);
  return openCpu(loadNative(), options, `rank ${seat.rank} of ${seat.size}`, seat);
}

function selectAlone(options: DeviceOptions): SelectedOps {
  switch (options.device) {
    case 'reference':
      return {
        ops: new ReferenceOps(options.half),
        reason: 'asked for by --device reference',
        warning: null,
      };
    case 'cpu':
      return openCpu(loadNative(), options, 'asked for by --device cpu');
    case 'cuda':
      return openCuda(options, 'asked for by --device cuda');
    case 'auto':
      return selectAutomatically(options);
  }
}

function selectAutomatically(options: DeviceOptions): SelectedOps {
  try {
    const native = loadNative();
    const obstacle = obstacleToGpu(native, options);
    const onCpu = (why: string) => {
      expectNoGpuBackend(options.attention, why);
      expectNoF16(options.dtype, why);
      return openCpu(native, options, `the native addon is built${why}`);
    };
    return obstacle === null ? openCudaOr(options, onCpu) : onCpu(obstacle);
  } catch (error) {
    // Where the user asks for what this machine cannot do, nothing else is served in its place.
    if (!(error instanceof NativeAddonError)) throw error;
    expectNoGpuBackend(options.attention, `: ${error.message}`);
    return { ops: new ReferenceOps(options.half), reason: `slow: ${error.message}`, warning: null };
  }
}

/** What keeps a GPU from being used, for behind a reason: '' where this machine has no driver for one. Null where nothing does. */
function obstacleToGpu(native: Native, options: DeviceOptions): string | null {
  const missing = missingForCuda(native);
  if (missing !== null) return missing === '' ? '' : notOnGpu(missing);
  if (options.share !== null) return notOnGpu('several engines share the processors (--data-parallel-size)');
  return options.attention.backend === 'CPU_ATTN'
    ? notOnGpu('asked for by --attention-backend CPU_ATTN')
    : null;
}

/** What the GPU turns out to lack, at once or when the model is loaded, the processor computes. */
function openCudaOr(options: DeviceOptions, onCpu: (why: string) => SelectedOps): SelectedOps {
  const otherwise = (why: string) => onCpu(notOnGpu(why));
  try {
    return { ...openCuda(options, 'found by --device auto'), otherwise };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return otherwise(error.message);
  }
}

function notOnGpu(why: string): string {
  return `; not on a GPU: ${why}`;
}

/** Between what ranks exchange there are too few launches for a graph to be worth while. */
function openCuda(options: DeviceOptions, reason: string, stage = 0, seat?: RankSeat): SelectedOps {
  const device = openCudaDevice(loadNative(), cudaOptions(options, seat), gpuOf(options, stage, seat), seat);
  return { ops: new NativeOps(device), reason, warning: null };
}

/** Alone on the GPU of a stage. */
function openCudaBeside(options: DeviceOptions, stage: number, place?: RankPlace): Ops {
  return new NativeOps(openCudaDevice(loadNative(), cudaOptions(options), gpuOf(options, stage, place)));
}

function cudaOptions({ enforceEager, attention, half = 'bf16' }: DeviceOptions, seat?: RankSeat) {
  const isScheduled = attention.backend === 'FLASHINFER';
  return {
    half,
    usesGraphs: !enforceEager && seat === undefined,
    schedulesDecode: isScheduled,
    schedulesPrefill: isScheduled && attention.isForPrefill,
  };
}

/** GPUs go to the engines in turn, in each to the stages, and in a stage to the ranks. */
function gpuOf(options: DeviceOptions, stage: number, place: RankPlace = ALONE): GpuPlace {
  const { share, dataParallelSize, pipelineParallelSize } = options;
  const { rank, size } = placeOf(stage, pipelineParallelSize, place);
  const sizes = {
    'data-parallel-size': dataParallelSize,
    'pipeline-parallel-size': pipelineParallelSize,
    'tensor-parallel-size': place.size,
  };
  return {
    gpu: (share?.rank ?? 0) * size + rank,
    count: dataParallelSize * size,
    options: Object.fromEntries(Object.entries(sizes).filter(([, value]) => value > 1)),
  };
}

function openCpu(
  native: Native,
  options: DeviceOptions,
  reason: string,
  seat?: RankSeat,
  place?: RankPlace,
): SelectedOps {
  expectNoF16(options.dtype);
  const ops = new NativeOps(openCpuDevice(native, options, seat, place));
  return { ops, reason, warning: tooManyThreads(options.numThreads) };
}

/** Threads that share a processor wait for each other at the end of every op. */
function tooManyThreads(numThreads: number | null): string | null {
  const processors = os.availableParallelism();
  if (numThreads === null || numThreads <= processors) return null;
  return (
    `--num-threads ${numThreads} is more than the ${processors} processors that svc may use here, which makes it slow: ` +
    'leave it out for one thread a physical core'
  );
}
