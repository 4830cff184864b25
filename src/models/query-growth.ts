// Queries that count more at later positions, so that attention stays as sharp over long contexts as over short ones.
// Sources: Nakanishi, "Scalable-Softmax Is Superior for Attention", 2025, as Llama 4 has it in layers without positions; Mistral AI, the
// releases of Ministral 3 (2025) and Mistral Small 4 (2026), whose `llama_4_scaling_beta` it is.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import type { RopeConfig } from './rope-config.ts';

/** Queries at position p, counted from `first` on, are multiplied by 1 + beta * log(1 + floor(p / original)). */
export interface QueryGrowth {
  readonly beta: number;
  /** The context that the model was first trained on, in tokens: up to there the factor is 1. */
  readonly original: number;
  readonly first: 0 | 1;
  /** Whether they are those of the layers without positions, or of those with them. */
  readonly layers: 'without positions' | 'with positions';
}

/** The fields of `ModelConfig` that say what tables of rotation turn. */
interface Rotation {
  readonly layerRopes: readonly (RopeConfig | null)[];
  readonly headDim: number;
  readonly rotaryDim: number;
  readonly latent: object | null;
}

const growth = z
  .object({
    llama_4_scaling_beta: z.number().nonnegative().nullish(),
    original_max_position_embeddings: z.int().positive().nullish(),
  })
  .nullish();
const schema = z.object({ rope_parameters: growth, rope_scaling: growth });

/**
 * Null where all count alike.
 * @throws ModelLoadError where tables of rotation cannot make all of a query grow: they have to be one for all contexts, and turn whole heads
 * or those of latent attention.
 */
export function readQueryGrowth(
  { path, json }: { readonly path: string; readonly json: unknown },
  { layerRopes, headDim, rotaryDim, latent }: Rotation,
): QueryGrowth | null {
  const { rope_parameters, rope_scaling } = checkModelJson(path, json, schema);
  const { llama_4_scaling_beta: beta, original_max_position_embeddings: original } = {
    ...rope_scaling,
    ...rope_parameters,
  };
  if (!beta || !original) return null;
  const isYarn = layerRopes.every((rope) => rope?.kind === 'yarn');
  if (isYarn && (latent !== null || rotaryDim === headDim))
    return { beta, original, first: 0, layers: 'with positions' };
  throw new ModelLoadError(
    `${path}: llama_4_scaling_beta is served with rope type yarn that turns whole heads; use a release of the model with such a config.json`,
  );
}

/** What queries at each position are multiplied by, [length]; null where that is 1 for all. */
export function growthFactors({ beta, original, first }: QueryGrowth, length: number): Float64Array | null {
  if (length - 1 + first < original) return null;
  return Float64Array.from(
    { length },
    (_, index) => 1 + beta * Math.log(1 + Math.floor((index + first) / original)),
  );
}
