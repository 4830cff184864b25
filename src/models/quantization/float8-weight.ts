// A weight of 8-bit floats (e4m3) as published. Scales of its input are known and left unread: inputs stay in bfloat16.

import type { CodesWeightSource, StoredScales } from '../../ops/weights.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { QuantizedProjection } from './method.ts';

/** Rows and columns of a block that has a scale. */
export const FLOAT8_BLOCK = 128;

/** @param scales one a block, where `isBlock`; else one a row or for the whole weight. */
export function float8Weight(
  checkpoint: Checkpoint,
  { name, n, k }: QuantizedProjection,
  isBlock: boolean,
  scales: StoredScales,
): CodesWeightSource {
  for (const scale of ['input_scale', 'activation_scale']) checkpoint.leaveUnread(`${name}.${scale}`);
  return {
    kind: 'codes',
    format: { kind: 'fp8', groupSize: isBlock ? FLOAT8_BLOCK : null, hasZeros: false },
    shape: [n, k],
    tensor: checkpoint.findAs(`${name}.weight`, [n, k], ['f8']),
    order: 'rows',
    scales,
    zeros: null,
    inputGroups: null,
  };
}

/** The scales `name`, one for each block of a weight [n, k]. */
export function blockScales(
  checkpoint: Checkpoint,
  name: string,
  { n, k }: QuantizedProjection,
): StoredScales {
  const blocks = [n, k].map((size) => Math.ceil(size / FLOAT8_BLOCK));
  return { tensor: checkpoint.find(name, blocks), isTransposed: false, outputs: FLOAT8_BLOCK };
}
