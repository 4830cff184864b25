// The products of a layer by the way in which ranks would share them: each rank computes some columns of the output, or
// takes a part of the input and the ranks' products are summed. Today there is one rank.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Activation, Tensor } from '../../ops/ops.ts';
import type { GateUpWeight, LinearWeight } from '../../ops/weights.ts';
import type { LoraTarget } from '../adapters/lora-target.ts';
import type { Step } from './step.ts';

/** Products that adapters may add to need the inputs of the step. */
type ProductStep = Pick<Step, 'ops'> & Partial<Step>;

function lorasOf(target: LoraTarget | null, inputs: Step['inputs'] | undefined) {
  return inputs && target?.inStep(inputs);
}

/** A rank computes its own columns of the output from the whole input. */
export class ColumnParallelLinear {
  readonly #weight: LinearWeight;
  readonly #target: LoraTarget | null;

  constructor(weight: LinearWeight, target: LoraTarget | null = null) {
    this.#weight = weight;
    this.#target = target;
  }

  get inputDType(): ComputeDType {
    return this.#weight.inputDType;
  }

  /** h [tokens, k] in `inputDType` -> f32 [tokens, n]. */
  apply({ ops, inputs }: ProductStep, h: Tensor): Tensor {
    return ops.linear(h, this.#weight, lorasOf(this.#target, inputs));
  }
}

/** Column-parallel gate and up projections with the activation between them, in one pass. */
export class GateUpLinear {
  readonly #weight: GateUpWeight;
  readonly #activation: Activation;
  readonly #target: LoraTarget | null;

  constructor(weight: GateUpWeight, activation: Activation, target: LoraTarget | null = null) {
    this.#weight = weight;
    this.#activation = activation;
    this.#target = target;
  }

  get inputDType(): ComputeDType {
    return this.#weight.inputDType;
  }

  /** h [tokens, k] in `inputDType` -> activation(gate) * up, [tokens, n] in it too. */
  apply({ ops, inputs }: ProductStep, h: Tensor): Tensor {
    return ops.gateUp(h, this.#weight, this.#activation, lorasOf(this.#target, inputs));
  }
}

/** A rank multiplies its own columns of the input; the product is whole once it is summed over the ranks. */
export class RowParallelLinear {
  readonly #weight: LinearWeight;
  readonly #target: LoraTarget | null;

  constructor(weight: LinearWeight, target: LoraTarget | null = null) {
    this.#weight = weight;
    this.#target = target;
  }

  get inputDType(): ComputeDType {
    return this.#weight.inputDType;
  }

  /** h [tokens, k] in `inputDType` -> the whole product, f32 [tokens, n]. */
  apply({ ops, inputs }: ProductStep, h: Tensor): Tensor {
    return ops.linear(h, this.#weight, lorasOf(this.#target, inputs));
  }

  /**
   * Adds the whole product to x [tokens, n] f32, the residual stream. With one rank the product is whole at once, and the
   * backend adds it on the way.
   */
  addTo(x: Tensor, { ops, inputs }: ProductStep, h: Tensor): void {
    ops.addLinear(x, h, this.#weight, lorasOf(this.#target, inputs));
  }
}
