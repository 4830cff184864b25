// What brings merged rows to the width of the text part: two products, perhaps behind a norm over all neighbours.

import { activated, headOf, product } from '../pooling/pooling-head.ts';
import type { Projector, VisionContext } from './image-encoder.ts';

/** @param name of its parts: `name.layer_norm`, `name.linear_1` and `name.linear_2` */
export function loadTwoProducts({ config, ops, text, weights }: VisionContext, name: string): Projector {
  const { layers, mergeSize, projector } = config;
  const { width, hasBias, hasNorm } = projector!;
  const merged = layers.hiddenSize * mergeSize ** 2;
  const vector = (part: string) => weights.vector(`${name}.layer_norm.${part}`, merged);
  const [scale, offset] = hasNorm ? [vector('weight'), vector('bias')] : [];
  return headOf(
    (_, x) => (scale ? ops.layerNorm(x, scale, offset!, NORM_EPS, 'f32') : x),
    product(weights.classifier(`${name}.linear_1`, width, merged, hasBias)),
    activated('gelu'),
    product(weights.classifier(`${name}.linear_2`, text.hiddenSize, width, hasBias)),
  );
}

const NORM_EPS = 1e-5;
