// The layer of Llama and its kin: attention, then a feed-forward, each after a norm of its own and added to the residual
// stream. What differs between them is in the config (biases, norms of heads, windows), or is another part.

import { loadAttention } from './attention.ts';
import type { LoadBlock, LoadLayer } from './layer.ts';
import { gatedMlp } from './mlp.ts';
import { type LoadNorm, rmsNorm } from './norm.ts';
import { inOrder, residual } from './residual.ts';

interface LayerParts {
  readonly norm?: LoadNorm;
  readonly attention?: LoadBlock;
  readonly feedForward?: LoadBlock;
  /** What the checkpoint calls it; left out, `mlp`. */
  readonly feedForwardName?: string;
}

export function preNormLayer({
  norm = rmsNorm,
  attention = loadAttention,
  feedForward = gatedMlp,
  feedForwardName = 'mlp',
}: LayerParts = {}): LoadLayer {
  return (context, layer, prefix) => {
    const scale = context.config.residualScale;
    return inOrder(
      residual({
        before: norm(context, `${prefix}.input_layernorm`),
        block: attention(context, layer, `${prefix}.self_attn`),
        scale,
      }),
      residual({
        before: norm(context, `${prefix}.post_attention_layernorm`),
        block: feedForward(context, layer, `${prefix}.${feedForwardName}`),
        scale,
      }),
    );
  };
}
