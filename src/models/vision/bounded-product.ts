// Products of which some releases bound what goes in and what comes out, each by numbers of its own.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { Step } from '../layers/step.ts';
import type { WeightReader } from '../weights/weight-reader.ts';

/** h [patches, k] -> f32 [patches, n] */
export interface Product {
  /** The format that it wants its input in. */
  readonly inputDType: ComputeDType;
  apply(step: Step, h: Tensor): Tensor;
}

/** @param name of the product: its bounds are `name.input_min` and so on. */
export function boundedProduct(product: Product, weights: WeightReader, name: string): Product {
  const input = boundsOf(weights, `${name}.input`);
  const output = boundsOf(weights, `${name}.output`);
  return {
    inputDType: 'f32',
    apply: (step, h) => {
      const { ops } = step;
      // A copy: other products with other bounds have the same input.
      const within = ops.cast(h, 'f32');
      ops.clip(within, ...input);
      const y = product.apply(step, ops.cast(within, product.inputDType));
      ops.clip(y, ...output);
      return y;
    },
  };
}

function boundsOf(weights: WeightReader, name: string): readonly [least: number, most: number] {
  const [one, other] = ['min', 'max'].map((end) => weights.number(`${name}_${end}`));
  // Numbers that are made up for measuring come in any order.
  return [Math.min(one!, other!), Math.max(one!, other!)];
}
