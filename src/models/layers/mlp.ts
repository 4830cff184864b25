// The feed-forward blocks of dense models: with a gate, and without.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Activation, Tensor } from '../../ops/ops.ts';
import type { Block, LoadBlock } from './layer.ts';
import type { ColumnParallelLinear, GateUpLinear, RowParallelLinear } from './linear.ts';
import type { Step } from './step.ts';

/** down(activation(gate(h)) * up(h)) */
export const gatedMlp: LoadBlock = ({ config, weights }, _layer, prefix) => {
  const { hiddenSize, intermediateSize, mlpBias: bias, activation } = config;
  const gate = { name: `${prefix}.gate_proj`, n: intermediateSize, bias };
  const up = { name: `${prefix}.up_proj`, n: intermediateSize, bias };
  return new GatedMlp(
    weights.gateUp(gate, up, hiddenSize, activation),
    weights.row({ name: `${prefix}.down_proj`, n: hiddenSize, bias }, intermediateSize),
  );
};

/** The same where gate and up are published as one tensor, gate first. */
export function fusedGatedMlp(gateUp = 'gate_up_proj', down = 'down_proj'): LoadBlock {
  return ({ config, weights }, _layer, prefix) => {
    const { hiddenSize, intermediateSize: n, mlpBias: bias, activation } = config;
    const half = (first: number) => ({
      name: `${prefix}.${gateUp}`,
      n,
      bias,
      within: { rows: 2 * n, first },
    });
    return new GatedMlp(
      weights.gateUp(half(0), half(n), hiddenSize, activation),
      weights.row({ name: `${prefix}.${down}`, n: hiddenSize, bias }, n),
    );
  };
}

class GatedMlp implements Block {
  readonly #gateUp: GateUpLinear;
  readonly #down: RowParallelLinear;

  constructor(gateUp: GateUpLinear, down: RowParallelLinear) {
    this.#gateUp = gateUp;
    this.#down = down;
  }

  get inputDType(): ComputeDType {
    return this.#gateUp.inputDType;
  }

  apply(step: Step, h: Tensor): Tensor {
    return this.#down.apply(step, this.#gateUp.apply(step, h));
  }

  addTo(x: Tensor, step: Step, h: Tensor): void {
    this.#down.addTo(x, step, this.#gateUp.apply(step, h));
  }
}

/** down(activation(up(h))) */
class PlainMlp implements Block {
  readonly #up: ColumnParallelLinear;
  readonly #activation: Activation;
  readonly #down: RowParallelLinear;

  constructor(up: ColumnParallelLinear, activation: Activation, down: RowParallelLinear) {
    this.#up = up;
    this.#activation = activation;
    this.#down = down;
  }

  get inputDType(): ComputeDType {
    return this.#up.inputDType;
  }

  apply(step: Step, h: Tensor): Tensor {
    return this.#down.apply(step, this.#activated(step, h));
  }

  addTo(x: Tensor, step: Step, h: Tensor): void {
    this.#down.addTo(x, step, this.#activated(step, h));
  }

  #activated(step: Step, h: Tensor): Tensor {
    return step.ops.activate(this.#up.apply(step, h), this.#activation, this.#down.inputDType);
  }
}

/** What a plain feed-forward calls its projections. */
interface PlainMlpNames {
  readonly up: string;
  readonly down: string;
  /** Whether they are published as [inputs, outputs]. */
  readonly isTransposed?: boolean;
}

export function plainMlp({ up, down, isTransposed = false }: PlainMlpNames): LoadBlock {
  return ({ config, weights }, _layer, prefix) => {
    const { hiddenSize, intermediateSize, mlpBias: bias, activation } = config;
    return new PlainMlp(
      weights.column({ name: `${prefix}.${up}`, n: intermediateSize, bias, isTransposed }, hiddenSize),
      activation,
      weights.row({ name: `${prefix}.${down}`, n: hiddenSize, bias, isTransposed }, intermediateSize),
    );
  };
}
