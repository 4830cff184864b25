// What every layer of a model sees of one step.

import type { Ops, StepInputs, Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';

export interface Step {
  readonly ops: Ops;
  readonly inputs: StepInputs;
  readonly ropeTable: Vector;
}

/** One layer: x [tokens, hidden] f32, the residual stream, is updated in place. */
export type Layer = (x: Tensor, step: Step) => void;
