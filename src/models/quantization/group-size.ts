// Groups along k that have a scale in common.

import { ModelLoadError } from '../../errors.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { QuantizedProjection } from './method.ts';

/** Kernels take the codes of 32 numbers along k at once. */
const UNIT = 32;

/**
 * Null is all of k, which is what methods call -1.
 * @throws ModelLoadError where groups do not divide k.
 */
export function groupSizeFor(
  { path }: Checkpoint,
  groupSize: number | null,
  { name, n, k }: QuantizedProjection,
): number | null {
  if (groupSize === null || groupSize === -1) return null;
  if (groupSize > 0 && k % groupSize === 0 && groupSize % UNIT === 0) return groupSize;
  if (groupSize === k) return null;
  throw new ModelLoadError(
    `${path}: ${name} [${n}, ${k}]: groups of ${groupSize} (quantization_config in config.json) must divide its ${k} inputs and be a multiple of ` +
      `${UNIT}; fetch the model again, or use a release of it with groups of 32, 64 or 128`,
  );
}
