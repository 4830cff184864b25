// The gated MLP that all these architectures share.

import type { Ops, Tensor } from '../../ops/ops.ts';
import type { ModelConfig } from '../model-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';

/** x [tokens, hidden] f32 += down(silu(gate(h)) * up(h)), h [tokens, hidden] in the compute dtype. */
export type Mlp = (ops: Ops, x: Tensor, h: Tensor) => void;

export function loadMlp(weights: WeightReader, prefix: string, config: ModelConfig, bias = false): Mlp {
  const { hiddenSize, intermediateSize } = config;
  const gateUp = weights.gateUp(
    { name: `${prefix}.gate_proj`, n: intermediateSize, bias },
    { name: `${prefix}.up_proj`, n: intermediateSize, bias },
    hiddenSize,
  );
  const down = weights.linear([{ name: `${prefix}.down_proj`, n: hiddenSize, bias }], intermediateSize);
  return (ops, x, h) => ops.addLinear(x, ops.siluGateUp(h, gateUp), down);
}
