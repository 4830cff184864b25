// The feed-forward blocks of dense models: with a gate, and without.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Ops, Tensor } from '../../ops/ops.ts';
import type { ExpertNames } from '../weights/weight-reader.ts';
import type { Block, LayerContext, LoadBlock } from './layer.ts';
import type { GateUpLinear, RowParallelLinear } from './linear.ts';
import { type NormOfColumns, rmsNormOfColumns } from './norm.ts';
import { productBlock } from './product-block.ts';

/** The layer's own width of the feed-forward in the place of that of most. */
export function withOwnWidth(context: LayerContext, index: number): LayerContext {
  const { config } = context;
  const intermediateSize = config.layerWidths?.[index] ?? config.intermediateSize;
  return { ...context, config: { ...config, intermediateSize } };
}

interface GatedMlpNames extends ExpertNames {
  readonly gate: string;
  /** Of a norm of what goes into `down`; left out, there is none. */
  readonly innerNorm?: string;
}

/** down(innerNorm(activation(gate(h)) * up(h))) */
export function gatedMlpOf(names: GatedMlpNames): LoadBlock {
  return (context, _layer, prefix) => {
    const { config, weights } = context;
    const { hiddenSize, intermediateSize, mlpBias: bias, activation } = config;
    const gate = { name: `${prefix}.${names.gate}`, n: intermediateSize, bias };
    const up = { name: `${prefix}.${names.up}`, n: intermediateSize, bias };
    return gated(
      weights.gateUp(gate, up, hiddenSize, activation),
      weights.row({ name: `${prefix}.${names.down}`, n: hiddenSize, bias }, intermediateSize),
      names.innerNorm === undefined
        ? undefined
        : rmsNormOfColumns(context, `${prefix}.${names.innerNorm}`, intermediateSize),
    );
  };
}

/** The same under the names that most checkpoints use. */
export const gatedMlp = gatedMlpOf({ gate: 'gate_proj', up: 'up_proj', down: 'down_proj' });

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
    return gated(
      weights.gateUp(half(0), half(n), hiddenSize, activation),
      weights.row({ name: `${prefix}.${down}`, n: hiddenSize, bias }, n),
    );
  };
}

/** The same of products that are made otherwise. */
export function gated(gateUp: GateUpLinear, output: RowParallelLinear, innerNorm?: NormOfColumns): Block {
  return productBlock({
    inputDType: gateUp.inputDType,
    inner: (step, h) => gateUp.apply(step, h),
    innerNorm,
    output,
  });
}

/** down(silu(factor * gate(h)) * up(h)) */
export function scaledGateMlp(factor: number): LoadBlock {
  return ({ config, weights }, _layer, prefix) => {
    const { hiddenSize, intermediateSize: n, mlpBias: bias } = config;
    const projections = ['gate_proj', 'up_proj'].map((name) => ({ name: `${prefix}.${name}`, n, bias }));
    const gateAndUp = weights.columns(projections, hiddenSize);
    const output = weights.row({ name: `${prefix}.down_proj`, n: hiddenSize, bias }, n);
    const own = weights.share.of(n).count;
    return productBlock({
      inputDType: gateAndUp.inputDType,
      inner: (step, h) => {
        const [gate, up] = gateAndUp.apply(step, h, [own, own]);
        step.ops.scale(gate!, factor);
        return step.ops.gate(up!, gate!, 'silu', output.inputDType);
      },
      output,
    });
  };
}

/**
 * down(activation(sparse(gate(h))) * up(h)): of the gates only those count that are so many standard deviations above their mean, as far
 * as they are.
 */
export function sparseGatedMlp(deviations: number): LoadBlock {
  return ({ config, weights }, _layer, prefix) => {
    const { hiddenSize, intermediateSize: n, mlpBias: bias, activation } = config;
    const projections = ['gate_proj', 'up_proj'].map((name) => ({ name: `${prefix}.${name}`, n, bias }));
    const gateAndUp = weights.columns(projections, hiddenSize);
    const output = weights.row({ name: `${prefix}.down_proj`, n: hiddenSize, bias }, n);
    const widths = weights.share.widths(n);
    return productBlock({
      inputDType: gateAndUp.inputDType,
      inner: (step, h) => {
        const { ops } = step;
        const own = widths[ops.ranks.rank]!;
        const [gate, up] = gateAndUp.apply(step, h, [own, own]);
        // Mean and deviation are those of the gates of all ranks.
        const whole = ops.gatherColumns(gate!, widths);
        ops.sparsify(whole, deviations);
        const opened = ops.activate(ops.split(whole, widths)[ops.ranks.rank]!, activation, 'f32');
        return ops.gate(up!, opened, 'identity', output.inputDType);
      },
      output,
    });
  };
}

/** What a plain feed-forward calls its projections. */
interface PlainMlpNames {
  readonly up: string;
  readonly down: string;
  /** Whether they are published as [inputs, outputs]. */
  readonly isTransposed?: boolean;
}

type Activate = (ops: Ops, x: Tensor, dtype: ComputeDType) => Tensor;

/** down(activation(up(h))) */
export function plainMlp(names: PlainMlpNames): LoadBlock {
  return (context, layer, prefix) => {
    const { activation } = context.config;
    const activate: Activate = (ops, x, dtype) => ops.activate(x, activation, dtype);
    return plainMlpWith(names, activate)(context, layer, prefix);
  };
}

/** The same with x * sigmoid(1.702 x) (Hendrycks and Gimpel, 2016), the quick form of GELU. */
export function quickGeluMlp(names: PlainMlpNames): LoadBlock {
  return plainMlpWith(names, (ops, x, dtype) => {
    const opening = ops.cast(x, 'f32');
    ops.scale(opening, 1.702);
    return ops.gate(x, opening, 'sigmoid', dtype);
  });
}

function plainMlpWith({ up, down, isTransposed = false }: PlainMlpNames, activate: Activate): LoadBlock {
  return ({ config, weights }, _layer, prefix) => {
    const { hiddenSize, intermediateSize, mlpBias: bias } = config;
    const names = { up: `${prefix}.${up}`, down: `${prefix}.${down}` };
    const first = weights.column({ name: names.up, n: intermediateSize, bias, isTransposed }, hiddenSize);
    const output = weights.row({ name: names.down, n: hiddenSize, bias, isTransposed }, intermediateSize);
    return productBlock({
      inputDType: first.inputDType,
      inner: (step, h) => activate(step.ops, first.apply(step, h), output.inputDType),
      output,
    });
  };
}
