// A block in the residual stream, with norms where the architecture puts them.

import type { Block, Layer } from './layer.ts';
import type { Norm } from './norm.ts';

interface ResidualParts {
  /** Left out: the block sees the stream as it is. */
  readonly before?: Norm;
  readonly block: Block;
  readonly after?: Norm;
  /** Factor on what is added. */
  readonly scale?: number;
}

/** x += scale * after(block(before(x))) */
export function residual({ before = unchanged, block, after, scale = 1 }: ResidualParts): Layer {
  return (x, step) => {
    const h = before(step, x, block.inputDType);
    if (after === undefined && scale === 1) {
      block.addTo(x, step, h);
      return;
    }
    const y = block.apply(step, h);
    step.ops.addScaled(x, after === undefined ? y : after(step, y, 'f32'), scale);
  };
}

/** Blocks side by side after one norm: all see the stream as it was before any of them. */
export function afterOneNorm(norm: Norm, first: Block, ...others: readonly Block[]): Layer {
  return (x, step) => {
    const h = norm(step, x, first.inputDType);
    for (const block of [first, ...others]) block.addTo(x, step, h);
  };
}

/** One after the other. */
export function inOrder(...layers: readonly Layer[]): Layer {
  return (x, step) => {
    for (const layer of layers) layer(x, step);
  };
}

const unchanged: Norm = ({ ops }, x, dtype) => (dtype === 'f32' ? x : ops.cast(x, dtype));
