// What config.json says of a mixture of experts, and which layers have one.

import { ModelLoadError } from '../errors.ts';
import type { Routing } from '../ops/experts.ts';

export interface ExpertsConfig {
  readonly count: number;
  /** Columns between the products of an expert. */
  readonly intermediateSize: number;
  /** How a token's experts are chosen; a bias is one of the weights. */
  readonly routing: Omit<Routing, 'bias'>;
  /** Numbers of a token that experts see; left out or null, all of the stream. */
  readonly latentSize?: number | null;
  /** Of the expert that computes every token; left out or null, there is none. */
  readonly sharedIntermediateSize?: number | null;
  /** [numLayers] whether the layer has experts; the others have one MLP. */
  readonly layers: readonly boolean[];
}

/**
 * @param path of config.json, for the message.
 * @throws ModelLoadError where there are none, a token has more experts than there are, or their groups do not fit.
 */
export function expectExperts(path: string, experts: ExpertsConfig): ExpertsConfig {
  const { count, routing } = experts;
  const { topK, groups } = routing;
  if (count === 0) throw new ModelLoadError(`${path}: num_experts must be the number of experts of a layer`);
  if (topK > count) {
    throw new ModelLoadError(
      `${path}: num_experts_per_tok must be at most the number of experts, ${count}, it is ${topK}`,
    );
  }
  if (!groups) return experts;
  const size = count / groups.count;
  const fits = Number.isInteger(size) && groups.kept <= groups.count && groups.kept * size >= topK;
  if (fits && groups.best <= size) return experts;
  throw new ModelLoadError(
    `${path}: n_group ${groups.count} and topk_group ${groups.kept} must leave ${topK} of ${count} experts to choose from`,
  );
}
