// What attention and feed-forwards have in common: a block whose last product is row-parallel.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { Block } from './layer.ts';
import type { RowParallelLinear } from './linear.ts';
import type { NormOfColumns } from './norm.ts';
import type { Step } from './step.ts';

interface ProductBlockParts {
  /** Of the first products. */
  readonly inputDType: ComputeDType;
  /** h [tokens, hidden] in `inputDType` -> [tokens, k] in the format of the last product. */
  readonly inner: (step: Step, h: Tensor) => Tensor;
  /** Of what the last product takes; left out, none. */
  readonly innerNorm?: NormOfColumns | undefined;
  readonly output: RowParallelLinear;
}

/** output(innerNorm(inner(h))) */
export function productBlock({ inputDType, inner, innerNorm, output }: ProductBlockParts): Block {
  const normed: ProductBlockParts['inner'] =
    innerNorm === undefined ? inner : (step, h) => innerNorm(step, inner(step, h), output.inputDType);
  return {
    inputDType,
    apply: (step, h) => output.apply(step, normed(step, h)),
    addTo: (x, step, h) => output.addTo(x, step, normed(step, h)),
  };
}
