// How fast the heads of a state forget.

import type { Vector } from '../../ops/weights.ts';
import type { LayerContext } from './layer.ts';

/** Published as logarithms `A_log`, of which converters make the rates. */
export function forgettingRates({ weights }: LayerContext, prefix: string, heads: number): Vector {
  const converted = `${prefix}.rates`;
  if (weights.hasVector(converted)) return weights.ownNumbers(converted, heads);
  return weights.ownNumbers(`${prefix}.A_log`, heads, (log) => -Math.exp(log));
}
