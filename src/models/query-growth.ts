// Queries that count more at later positions, so that attention stays as sharp over long contexts as over short ones.
// Source: Mistral AI, the releases of Ministral 3 (2025) and Mistral Small 4 (2026), whose `llama_4_scaling_beta` it is.

import * as z from 'zod';
import { checkModelJson } from '../util/model-file.ts';

/** Queries at position p are multiplied by 1 + beta * log(1 + floor(p / original)). */
export interface QueryGrowth {
  readonly beta: number;
  /** The context that the model was first trained on, in tokens: up to there the factor is 1. */
  readonly original: number;
}

const growth = z
  .object({
    llama_4_scaling_beta: z.number().nonnegative().nullish(),
    original_max_position_embeddings: z.int().positive().nullish(),
  })
  .nullish();
const schema = z.object({ rope_parameters: growth, rope_scaling: growth });

/** Null where all count alike. */
export function readQueryGrowth({ path, json }: { path: string; json: unknown }): QueryGrowth | null {
  const { rope_parameters, rope_scaling } = checkModelJson(path, json, schema);
  const { llama_4_scaling_beta: beta, original_max_position_embeddings: original } = {
    ...rope_scaling,
    ...rope_parameters,
  };
  return beta && original ? { beta, original } : null;
}

/** What queries at each position are multiplied by, [length]; null where that is 1 for all. */
export function growthFactors({ beta, original }: QueryGrowth, length: number): Float64Array | null {
  if (length <= original) return null;
  return Float64Array.from(
    { length },
    (_, position) => 1 + beta * Math.log(1 + Math.floor(position / original)),
  );
}
