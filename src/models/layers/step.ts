// What every layer of a model sees of one step.

import type { KvCache, Ops, Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';
import type { ForwardInputs } from '../model.ts';

export interface Step {
  readonly ops: Ops;
  readonly inputs: ForwardInputs;
  readonly cache: KvCache;
  readonly ropeTable: Vector;
}

/** One layer: x [tokens, hidden] f32, the residual stream, is updated in place. */
export type Layer = (x: Tensor, step: Step) => void;
