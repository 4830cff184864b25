// InternLM 2, 2.5 and 3: as Llama. InternLM 2 publishes the queries of each group of heads, then their key and their value, in one tensor,
// under names of its own (Cai et al., "InternLM2 Technical Report", 2024).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, outputProjection } from '../layers/attention.ts';
import type { LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import type { ColumnParallelLinears } from '../layers/linear.ts';
import { gatedMlpOf } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { readDecoderConfig } from '../model-config.ts';

const ownFields = z.object({ bias: z.boolean().nullish(), qkv_bias: z.boolean().nullish() });

export const internLm2: Architecture = {
  architectures: ['InternLM2ForCausalLM'],
  readConfig: (file) => {
    const { bias } = checkModelJson(file.path, file.json, ownFields);
    return readDecoderConfig(file, () => ({
      qkvBias: bias ?? true,
      attentionOutputBias: bias ?? true,
      tensorNames: {
        roots: ['model.'],
        embedding: 'tok_embeddings',
        layers: 'layers',
        finalNorm: 'norm',
        heads: ['output'],
      },
    }));
  },
  load: (context) => loadDecoder(context, { layer }),
};

export const internLm3: Architecture = {
  architectures: ['InternLM3ForCausalLM'],
  readConfig: (file) => {
    const { bias, qkv_bias } = checkModelJson(file.path, file.json, ownFields);
    return readDecoderConfig(file, () => ({ qkvBias: qkv_bias, attentionOutputBias: bias, mlpBias: bias }));
  },
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};

const layer: LoadLayer = (context, index, prefix) =>
  inOrder(
    residual({
      before: rmsNorm(context, `${prefix}.attention_norm`),
      block: attention(context, index, `${prefix}.attention`),
    }),
    residual({
      before: rmsNorm(context, `${prefix}.ffn_norm`),
      block: mlp(context, index, `${prefix}.feed_forward`),
    }),
  );

const attention: LoadBlock = (context, index, prefix) =>
  attentionOf(context, index, {
    qkv: groupwiseQkv(context, `${prefix}.wqkv`),
    output: outputProjection(context, `${prefix}.wo`),
  });

const mlp = gatedMlpOf({ gate: 'w1', up: 'w3', down: 'w2' });

/** The tensor's rows are the queries of the first group, its key and its value, then those of the next. */
function groupwiseQkv({ config, weights }: LayerContext, name: string): ColumnParallelLinears {
  const { numHeads, numKvHeads, headDim, hiddenSize, qkvBias: bias } = config;
  const queries = (numHeads / numKvHeads) * headDim;
  const groupRows = queries + 2 * headDim;
  const own = weights.share.of(numKvHeads);
  const kinds = [
    { n: queries, first: 0 },
    { n: headDim, first: queries },
    { n: headDim, first: queries + headDim },
  ];
  const parts = kinds.flatMap(({ n, first }) =>
    Array.from({ length: own.count }, (_, group) => ({
      name,
      n,
      bias,
      within: { rows: numKvHeads * groupRows, first: (own.first + group) * groupRows + first },
      shared: null,
    })),
  );
  return weights.columns(parts, hiddenSize);
}
