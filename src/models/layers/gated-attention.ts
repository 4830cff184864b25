// Attention whose heads have gates: a query's projection holds, head by head, the query and what lets through what it saw.
// Source: Qiu et al., "Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free", 2025.

import type { Projection } from '../weights/weight-reader.ts';
import { attentionOf, headNorms, outputProjection } from './attention.ts';
import type { LayerContext, LoadBlock } from './layer.ts';
import type { ColumnParallelLinears } from './linear.ts';

/** Under the usual names; norms of heads are published as what they differ from 1. */
export const gatedAttention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: qkvAndGates(context, prefix),
    hasGates: true,
    headNorms: headNorms(context, prefix, { weightOffset: 1 }),
    output: outputProjection(context, `${prefix}.o_proj`),
  });

function qkvAndGates({ config, weights }: LayerContext, prefix: string): ColumnParallelLinears {
  const { numHeads, numKvHeads, headDim: n, hiddenSize, qkvBias: bias } = config;
  const own = weights.share.of(numHeads);
  const ofHeads = (kind: number): Projection[] =>
    Array.from({ length: own.count }, (_, head) => ({
      name: `${prefix}.q_proj`,
      n,
      bias,
      within: { rows: 2 * numHeads * n, first: (2 * (own.first + head) + kind) * n },
      shared: null,
    }));
  const keys = { name: `${prefix}.k_proj`, n: numKvHeads * n, bias };
  const values = { name: `${prefix}.v_proj`, n: numKvHeads * n, bias };
  return weights.columns([...ofHeads(0), keys, values, ...ofHeads(1)], hiddenSize);
}
