// What every part of a model sees of one step.

import type { Ops, StepInputs } from '../../ops/ops.ts';

export interface Step {
  readonly ops: Ops;
  readonly inputs: StepInputs;
}
