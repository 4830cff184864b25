// GPT-NeoX and Pythia: attention and feed-forward side by side, each after a norm of its own; a part of each head is rotated
// (Black et al., 2022). Queries, keys and values are published head by head in one tensor.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, fusedQkv, outputProjection } from '../layers/attention.ts';
import type { Block, LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import type { ColumnParallelLinears } from '../layers/linear.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNorm, type Norm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

const ownFields = z.object({
  layer_norm_eps: z.number().positive().nullish(),
  rotary_pct: z.number().positive().max(1).nullish(),
  rotary_emb_base: z.number().positive().nullish(),
  attention_bias: z.boolean().nullish(),
  use_parallel_residual: z.boolean().nullish(),
});

export const gptNeox: Architecture = {
  architectures: ['GPTNeoXForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer: neoxLayer, norm: layerNorm }),
};

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const bias = own.attention_bias ?? true;
  return readDecoderConfig(file, (fields) => ({
    normEps: own.layer_norm_eps ?? 1e-5,
    activation: fields.hidden_act ?? 'gelu',
    ropeTheta: own.rotary_emb_base ?? 10000,
    rotaryFactor: own.rotary_pct ?? 0.25,
    qkvBias: bias,
    attentionOutputBias: bias,
    mlpBias: true,
    hasParallelBlocks: own.use_parallel_residual ?? true,
    tensorNames: {
      roots: ['gpt_neox.'],
      embedding: 'embed_in',
      layers: 'layers',
      finalNorm: 'final_layer_norm',
      heads: ['embed_out', 'lm_head'],
    },
  }));
}

const neoxLayer: LoadLayer = (context, layer, prefix) => {
  const attentionNorm = layerNorm(context, `${prefix}.input_layernorm`);
  const attention = neoxAttention(context, layer, `${prefix}.attention`);
  const mlpNorm = layerNorm(context, `${prefix}.post_attention_layernorm`);
  const mlp = neoxMlp(context, layer, `${prefix}.mlp`);
  return context.config.hasParallelBlocks
    ? sideBySide([attentionNorm, attention], [mlpNorm, mlp])
    : inOrder(
        residual({ before: attentionNorm, block: attention }),
        residual({ before: mlpNorm, block: mlp }),
      );
};

/** Both see the stream as it was before either. */
function sideBySide(...blocks: readonly (readonly [Norm, Block])[]): ReturnType<LoadLayer> {
  return (x, step) => {
    const inputs = blocks.map(([norm, block]) => norm(step, x, block.inputDType));
    for (const [i, [, block]] of blocks.entries()) block.addTo(x, step, inputs[i]!);
  };
}

const neoxAttention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    // Converters bring its rows into the usual order.
    qkv: context.weights.has(`${prefix}.qkv`)
      ? fusedQkv(context, `${prefix}.qkv`)
      : headwiseQkv(context, `${prefix}.query_key_value`),
    output: outputProjection(context, `${prefix}.dense`),
  });

const neoxMlp = plainMlp({ up: 'dense_h_to_4h', down: 'dense_4h_to_h' });

/** The tensor's rows are query, key and value of head 0, then of head 1, and so on. */
function headwiseQkv({ config, weights }: LayerContext, name: string): ColumnParallelLinears {
  const { numHeads, headDim: n, hiddenSize, qkvBias: bias } = config;
  const rows = 3 * numHeads * n;
  const own = weights.share.of(numHeads);
  const parts = [0, 1, 2].flatMap((kind) =>
    Array.from({ length: own.count }, (_, head) => ({
      name,
      n,
      bias,
      within: { rows, first: (3 * (own.first + head) + kind) * n },
      shared: null,
    })),
  );
  return weights.columns(parts, hiddenSize);
}
