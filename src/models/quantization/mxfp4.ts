// MXFP4 as GPT-OSS is published: the experts of a layer alone, stacked into one tensor of codes and one of scales. All other
// weights are floats.
// Source: Open Compute Project, "OCP Microscaling Formats (MX) Specification", 2023, and the release of gpt-oss.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { type CodesWeightSource, narrow, reshape } from '../../ops/weights.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { QuantizationMethod } from './method.ts';

/** Numbers that have a scale in common, and the bytes of their codes. */
const GROUP = 32;
const GROUP_BYTES = 16;

export const mxfp4: QuantizationMethod<object> = {
  schema: z.object({}),
  served: 'the experts of GPT-OSS',
  finder: () => () => null,
};

/** Projections [n, k] of `count` experts in one tensor; those that are interleaved take turns output by output. */
export interface StackedProjections {
  readonly name: string;
  readonly count: number;
  readonly n: number;
  readonly k: number;
  readonly interleaved: 1 | 2;
}

/** Where expert `expert` of `name_blocks` and `name_scales` is, the `which`-th of those that are interleaved. */
export function mxfp4Expert(
  checkpoint: Checkpoint,
  { name, count, n, k, interleaved }: StackedProjections,
  expert: number,
  which: number,
): CodesWeightSource {
  if (k % GROUP !== 0) {
    throw new ModelLoadError(
      `${checkpoint.path}: ${name}_blocks must have inputs in groups of ${GROUP}, config.json says ${k} of them`,
    );
  }
  const groups = k / GROUP;
  const rows = n * interleaved;
  const blocks = checkpoint.findAs(`${name}_blocks`, [count, rows, groups, GROUP_BYTES], ['u8']);
  const scales = checkpoint.findAs(`${name}_scales`, [count, rows, groups], ['u8']);
  const part = (tensor: typeof blocks, cols: number) => {
    const ofExpert = narrow(reshape(tensor, [count * n, interleaved * cols]), 0, expert * n, n);
    return narrow(ofExpert, 1, which * cols, cols);
  };
  return {
    kind: 'codes',
    format: { kind: 'fp4', groupSize: GROUP, hasZeros: false },
    shape: [n, k],
    tensor: part(blocks, groups * GROUP_BYTES),
    order: 'rows',
    scales: { tensor: part(scales, groups), isTransposed: false, outputs: 1 },
    zeros: null,
    inputGroups: null,
  };
}
