// The products of a layer by the way in which ranks share them. Each rank computes some columns of the output; a row-parallel product
// first brings together what the ranks have made of its input, and then its output.

import type { Activation } from '../../ops/activation.ts';
import type { ComputeDType } from '../../ops/dtype.ts';
import type { Ops, Tensor } from '../../ops/ops.ts';
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

/** Several column-parallel projections of one input: one product for all of them, or one for some neighbours each. */
export class ColumnParallelLinears {
  readonly #products: readonly ColumnParallelLinear[];

  constructor(products: readonly ColumnParallelLinear[]) {
    this.#products = products;
  }

  get inputDType(): ComputeDType {
    return this.#products[0]!.inputDType;
  }

  /** h [tokens, k] in `inputDType` -> of each projection f32 [tokens, width]. */
  apply(step: ProductStep, h: Tensor, widths: readonly number[]): readonly Tensor[] {
    let next = 0;
    return this.#products.flatMap((product) => {
      const output = product.apply(step, h);
      const first = next;
      for (let rest = output.cols; rest > 0; next += 1) rest -= widths[next]!;
      return next === first + 1 ? output : step.ops.split(output, widths.slice(first, next));
    });
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

/** How many columns each rank has of what goes into a row-parallel product, and of what comes out of it. */
interface RowParallelWidths {
  /** Null where every rank has the whole input already. */
  readonly inputs: readonly number[] | null;
  readonly outputs: readonly number[];
}

/**
 * A rank has its own columns of the input, made by column-parallel products, and in the end the whole output. Ranks that multiplied
 * what they have and summed their products would send more: sums are f32.
 */
export class RowParallelLinear {
  readonly #weight: LinearWeight;
  readonly #target: LoraTarget | null;
  readonly #widths: RowParallelWidths;

  constructor(weight: LinearWeight, target: LoraTarget | null, widths: RowParallelWidths) {
    this.#weight = weight;
    this.#target = target;
    this.#widths = widths;
  }

  get inputDType(): ComputeDType {
    return this.#weight.inputDType;
  }

  /** h [tokens, own columns of k] in `inputDType`, or all of them where `inputs` is null -> the whole product, f32 [tokens, n]. */
  apply({ ops, inputs }: ProductStep, h: Tensor): Tensor {
    const own = ops.linear(this.#whole(ops, h), this.#weight, lorasOf(this.#target, inputs));
    return ops.gatherColumns(own, this.#widths.outputs);
  }

  /** Adds the whole product to x [tokens, n] f32, the residual stream. */
  addTo(x: Tensor, { ops, inputs }: ProductStep, h: Tensor): void {
    const own = ops.split(x, this.#widths.outputs)[ops.ranks.rank]!;
    ops.addLinear(own, this.#whole(ops, h), this.#weight, lorasOf(this.#target, inputs));
    ops.shareColumns(x, this.#widths.outputs);
  }

  #whole(ops: Ops, h: Tensor): Tensor {
    const { inputs } = this.#widths;
    return inputs === null ? h : ops.gatherColumns(h, inputs);
  }
}
