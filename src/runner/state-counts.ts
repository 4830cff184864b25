// How many sequences have states of layers at the same time, and how many states are kept for prompts that begin alike.

import type { EngineConfig } from '../config/engine-config.ts';

/** Kept states are worth some memory however few sequences run. */
const USUAL_SNAPSHOTS = 64;

export interface StateCounts {
  /** Sequences that may run at the same time. */
  readonly maxNumSeqs: number;
  readonly numSnapshots: number;
}

type StateLimits = Pick<EngineConfig, 'maxNumSeqs' | 'enablePrefixCaching'>;

/** More than these nobody needs. */
export function mostStates({ maxNumSeqs, enablePrefixCaching }: StateLimits): number {
  return maxNumSeqs + (enablePrefixCaching ? Math.max(maxNumSeqs, USUAL_SNAPSHOTS) : 0);
}

/** Of `numStates`, at most `mostStates`: where they are few, half of them are for sequences that run. */
export function shareStates(
  { maxNumSeqs, enablePrefixCaching }: StateLimits,
  numStates: number,
): StateCounts {
  const running = Math.min(maxNumSeqs, enablePrefixCaching ? Math.ceil(numStates / 2) : numStates);
  return { maxNumSeqs: running, numSnapshots: numStates - running };
}
