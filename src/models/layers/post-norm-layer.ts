// The layer of BERT and its kin: attention and a feed-forward, of each of which the stream is normalised with what it has added.

import type { LoadBlock, LoadLayer } from './layer.ts';
import { layerNormInPlace } from './norm.ts';
import { inOrder, residual } from './residual.ts';

/** A block, and what its tensors begin with within the layer, then its norm; no name is where the layer's own begin. */
interface NormedBlock {
  readonly load: LoadBlock;
  readonly name?: string;
  readonly norm: string;
}

/** x = norm(x + attention(x)), then x = norm(x + mlp(x)) */
export function postNormLayer(attention: NormedBlock, mlp: NormedBlock): LoadLayer {
  return (context, layer, prefix) =>
    inOrder(
      ...[attention, mlp].flatMap(({ load, name, norm }) => [
        residual({ block: load(context, layer, name === undefined ? prefix : `${prefix}.${name}`) }),
        layerNormInPlace(context, `${prefix}.${norm}`),
      ]),
    );
}
