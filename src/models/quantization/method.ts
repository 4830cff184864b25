// What each method of quantising a checkpoint says of itself.

import type * as z from 'zod';
import type { LinearWeightSource } from '../../ops/weights.ts';
import type { Checkpoint } from '../source/checkpoint.ts';

/** The projection `name`, its weight [n, k]. */
export interface QuantizedProjection {
  readonly name: string;
  readonly n: number;
  readonly k: number;
}

/**
 * Where the numbers of a projection are; null where it is published in floats.
 * @throws ModelLoadError where a tensor is missing or has another shape.
 */
export type FindWeight = (
  checkpoint: Checkpoint,
  projection: QuantizedProjection,
) => LinearWeightSource | null;

/** A method: what its quantization_config says, as far as it is served. */
export interface QuantizationMethod<Config = unknown> {
  readonly schema: z.ZodType<Config>;
  /** What of it is served, for messages. */
  readonly served: string;
  /** @param path of config.json, for messages. */
  finder(config: Config, path: string): FindWeight;
}
