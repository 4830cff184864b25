// What every part of a model sees of one step.

import type { Ops, StepInputs, Tensor } from '../../ops/ops.ts';

export interface Step {
  readonly ops: Ops;
  readonly inputs: StepInputs;
  /** [layers] f32 [tokens, width] what each layer gets of its tokens for itself; left out where they get nothing. */
  readonly layerInputs?: readonly Tensor[];
}
