// The MLP with a gate: down(silu(gate(h)) * up(h)).

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { ModelConfig } from '../model-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';
import type { GateUpLinear, RowParallelLinear } from './linear.ts';
import type { Step } from './step.ts';

export class Mlp {
  readonly #gateUp: GateUpLinear;
  readonly #down: RowParallelLinear;

  constructor(weights: WeightReader, prefix: string, config: ModelConfig) {
    const { hiddenSize, intermediateSize, mlpBias: bias } = config;
    this.#gateUp = weights.gateUp(
      { name: `${prefix}.gate_proj`, n: intermediateSize, bias },
      { name: `${prefix}.up_proj`, n: intermediateSize, bias },
      hiddenSize,
    );
    this.#down = weights.row({ name: `${prefix}.down_proj`, n: hiddenSize, bias }, intermediateSize);
  }

  get inputDType(): ComputeDType {
    return this.#gateUp.inputDType;
  }

  /** h [tokens, hidden] in `inputDType`; the result is added to `addTo` [tokens, hidden] f32. */
  apply(step: Step, h: Tensor, { addTo }: { readonly addTo: Tensor }): void {
    this.#down.apply(step, this.#gateUp.apply(step, h), { addTo });
  }
}
