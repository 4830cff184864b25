// Why a step that several stages compute has failed.

import type { Ops } from '../ops/ops.ts';

/**
 * What `compute` gives.
 * @throws the failure of the first stage that has failed, where one has: those after it only say that they did not go on, and a GPU may
 *   tell of what it could not compute at any later call.
 */
export function amongStages<T>(stages: readonly Ops[], compute: () => T): T {
  try {
    return compute();
  } catch (error) {
    throw stages.length === 1 ? error : failureOf(stages, error);
  }
}

function failureOf(stages: readonly Ops[], error: unknown): unknown {
  for (const [index, ops] of stages.entries()) {
    try {
      ops.mark().read();
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      return new Error(`pipeline stage ${index + 1} of ${stages.length} failed: ${reason}`, { cause });
    }
  }
  return error;
}
