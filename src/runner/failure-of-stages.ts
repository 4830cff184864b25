// Why a step that several stages compute has failed.

import type { Ops } from '../ops/ops.ts';

/** The failure of the first stage that has failed: those after it only say that it did not go on. @param error what reading a step threw */
export function failureOf(stages: readonly Ops[], error: unknown): unknown {
  if (stages.length === 1) return error;
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
