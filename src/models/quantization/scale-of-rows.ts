// Of weights of -1, 0 and 1 that have one scale: it is that of each row.

import { ModelLoadError } from '../../errors.ts';
import { readTensor } from '../../ops/read-tensor.ts';
import { type TensorSource, wholeTensor } from '../../ops/weights.ts';
import type { Checkpoint } from '../source/checkpoint.ts';

/** @throws ModelLoadError where the scale beside the weight `name` is missing or not above 0. */
export function publishedScale(
  checkpoint: Checkpoint,
  name: string,
): { readonly source: TensorSource; readonly scale: number } {
  const source = checkpoint.findNumber(`${name}.weight_scale`);
  const scale = readTensor(source, 'f32')[0]!;
  if (scale > 0) return { source, scale };
  throw new ModelLoadError(`tensor ${source.name} of ${source.path} must be above 0, got ${scale}`);
}

/** [n, 1]. @param from where the scale was, for messages */
export function scaleOfRows(
  { name, path }: Pick<TensorSource, 'name' | 'path'>,
  scale: number,
  n: number,
): TensorSource {
  const numbers = new Float32Array(n).fill(scale);
  const file = { name, path, byteOffset: 0, byteLength: numbers.byteLength };
  return { ...wholeTensor({ ...file, dtype: 'f32', shape: [n, 1] }), numbers };
}
