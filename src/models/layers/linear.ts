// The products of a layer by the way in which ranks would share them: each rank computes some columns of the output, or
// takes a part of the input and the ranks' products are summed. Today there is one rank.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Activation, Tensor } from '../../ops/ops.ts';
import type { GateUpWeight, LinearWeight } from '../../ops/weights.ts';
import type { Step } from './step.ts';

/** A rank computes its own columns of the output from the whole input. */
export class ColumnParallelLinear {
  readonly #weight: LinearWeight;

  constructor(weight: LinearWeight) {
    this.#weight = weight;
  }

  get inputDType(): ComputeDType {
    return this.#weight.inputDType;
  }

  /** h [tokens, k] in `inputDType` -> f32 [tokens, n]. */
  apply({ ops }: Pick<Step, 'ops'>, h: Tensor): Tensor {
    return ops.linear(h, this.#weight);
  }
}

/** Several column-parallel projections of one input: one product for all of them, or one for each. */
export class ColumnParallelLinears {
  readonly #products: readonly ColumnParallelLinear[];

  constructor(products: readonly ColumnParallelLinear[]) {
    this.#products = products;
  }

  get inputDType(): ComputeDType {
    return this.#products[0]!.inputDType;
  }

  /** h [tokens, k] in `inputDType` -> of each projection f32 [tokens, width]. */
  apply({ ops }: Pick<Step, 'ops'>, h: Tensor, widths: readonly number[]): readonly Tensor[] {
    const outputs = this.#products.map((product) => product.apply({ ops }, h));
    return outputs.length === 1 ? ops.split(outputs[0]!, widths) : outputs;
  }
}

/** Column-parallel gate and up projections with the activation between them, in one pass. */
export class GateUpLinear {
  readonly #weight: GateUpWeight;
  readonly #activation: Activation;

  constructor(weight: GateUpWeight, activation: Activation) {
    this.#weight = weight;
    this.#activation = activation;
  }

  get inputDType(): ComputeDType {
    return this.#weight.inputDType;
  }

  /** h [tokens, k] in `inputDType` -> activation(gate) * up, [tokens, n] in it too. */
  apply({ ops }: Pick<Step, 'ops'>, h: Tensor): Tensor {
    return ops.gateUp(h, this.#weight, this.#activation);
  }
}

/** A rank multiplies its own columns of the input; the product is whole once it is summed over the ranks. */
export class RowParallelLinear {
  readonly #weight: LinearWeight;

  constructor(weight: LinearWeight) {
    this.#weight = weight;
  }

  get inputDType(): ComputeDType {
    return this.#weight.inputDType;
  }

  /** h [tokens, k] in `inputDType` -> the whole product, f32 [tokens, n]. */
  apply({ ops }: Pick<Step, 'ops'>, h: Tensor): Tensor {
    return ops.linear(h, this.#weight);
  }

  /**
   * Adds the whole product to x [tokens, n] f32, the residual stream. With one rank the product is whole at once, and the
   * backend adds it on the way.
   */
  addTo(x: Tensor, { ops }: Pick<Step, 'ops'>, h: Tensor): void {
    ops.addLinear(x, h, this.#weight);
  }
}
