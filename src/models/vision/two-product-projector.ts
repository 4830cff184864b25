// What brings merged rows to the width of the text part: two products, perhaps behind a norm over all neighbours.

import { activated, headOf, product } from '../pooling/pooling-head.ts';
import type { Projector, VisionContext } from './image-encoder.ts';

/** What a checkpoint calls its parts. */
export interface TwoProductNames {
  readonly norm: string;
  readonly first: string;
  readonly second: string;
}

export function loadTwoProducts(
  { config, ops, text, weights }: VisionContext,
  names: TwoProductNames,
): Projector {
  const { layers, mergeSize, projector } = config;
  const { width, hasBias, hasNorm } = projector!;
  const merged = layers.hiddenSize * mergeSize ** 2;
  const vector = (part: string) => weights.vector(`${names.norm}.${part}`, merged);
  const [scale, offset] = hasNorm ? [vector('weight'), vector('bias')] : [];
  return headOf(
    (_, x) => (scale ? ops.layerNorm(x, scale, offset!, NORM_EPS, 'f32') : x),
    product(weights.classifier(names.first, width, merged, hasBias)),
    activated('gelu'),
    product(weights.classifier(names.second, text.hiddenSize, width, hasBias)),
  );
}

const NORM_EPS = 1e-5;
