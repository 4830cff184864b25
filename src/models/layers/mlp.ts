// The feed-forward blocks of dense models: with a gate, and without.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { Block, LoadBlock } from './layer.ts';
import type { GateUpLinear, RowParallelLinear } from './linear.ts';
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

export class GatedMlp implements Block {
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
