// NVFP4: weights of 4-bit floats (e2m1), a scale in e4m3 for each 16 inputs of an output, and one number for all scales of the weight.
// Inputs stay in bfloat16.
// Source: the releases of NVIDIA and of compressed-tensors, and their code for unpacking them.

import { ModelLoadError } from '../../errors.ts';
import type { CodesWeightSource, ScaleOfAll } from '../../ops/weights.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { QuantizedProjection } from './method.ts';

/** Inputs that have a scale in common. */
const GROUP = 16;

/**
 * The weight whose codes are in the tensor `codes`, its scales beside it in `name.weight_scale`.
 * @throws ModelLoadError where its inputs fill no groups.
 */
export function nvfp4Weight(
  checkpoint: Checkpoint,
  { name, n, k }: QuantizedProjection,
  codes: string,
  ofAll: ScaleOfAll,
): CodesWeightSource {
  if (k % GROUP !== 0) {
    throw new ModelLoadError(
      `${checkpoint.path}: ${codes} must have inputs in groups of ${GROUP}, config.json says ${k} of them`,
    );
  }
  for (const scale of ['input_scale', 'input_global_scale']) checkpoint.leaveUnread(`${name}.${scale}`);
  const scales = checkpoint.findAs(`${name}.weight_scale`, [n, k / GROUP], ['f8']);
  return {
    kind: 'codes',
    format: { kind: 'fp4', groupSize: GROUP, hasZeros: false },
    shape: [n, k],
    tensor: checkpoint.findAs(codes, [n, k / 2], ['u8']),
    order: 'rows',
    scales: { tensor: scales, isTransposed: false, outputs: 1, ofAll },
    zeros: null,
    inputGroups: null,
  };
}
