// GPT-J and CodeGen: attention and a feed-forward without a gate side by side after one layer norm, neighbours in a part of each head are
// rotated against each other, and the output head has a bias (Wang and Komatsuzaki, 2021; Nijkamp et al., "CodeGen", 2022).

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadLayer } from '../layers/layer.ts';
import type { ColumnParallelLinears } from '../layers/linear.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNorm } from '../layers/norm.ts';
import { afterOneNorm } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { GPT_NAMES, gptFields, inUsualFields } from './gpt-fields.ts';

type LoadQkv = (context: LayerContext, prefix: string) => ColumnParallelLinears;

export const gptJ: Architecture = {
  architectures: ['GPTJForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer: layerWith(separateQkv), norm: layerNorm }),
};

export const codeGen: Architecture = {
  architectures: ['CodeGenForCausalLM'],
  readConfig: readCodeGen,
  load: (context) => loadDecoder(context, { layer: layerWith(sharedQkv), norm: layerNorm }),
};

const ownFields = gptFields.extend({
  rotary_dim: z.int().positive(),
  // What all releases say.
  tie_word_embeddings: z.literal(false).nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const json = {
    ...inUsualFields(own),
    partial_rotary_factor: (own.rotary_dim * own.n_head) / own.n_embd,
  };
  return readDecoderConfig({ ...file, json }, () => ({
    normEps: own.layer_norm_epsilon ?? 1e-5,
    ropeIsInterleaved: true,
    mlpBias: true,
    headBias: true,
    tensorNames: GPT_NAMES,
  }));
}

/** CodeGen's heads are published in so many parts, as they were trained. */
const PARTS = 4;

function readCodeGen(file: ConfigFile): ModelConfig {
  const config = readConfig(file);
  if (config.numHeads % PARTS === 0) return config;
  throw new ModelLoadError(`${file.path}: n_head must be a multiple of ${PARTS}, got ${config.numHeads}`);
}

const mlp = plainMlp({ up: 'fc_in', down: 'fc_out' });

function layerWith(loadQkv: LoadQkv): LoadLayer {
  return (context, layer, prefix) =>
    afterOneNorm(
      layerNorm(context, `${prefix}.ln_1`),
      attentionOf(context, layer, {
        qkv: loadQkv(context, `${prefix}.attn`),
        output: outputProjection(context, `${prefix}.attn.out_proj`),
      }),
      mlp(context, layer, `${prefix}.mlp`),
    );
}

/** The rows of `qkv_proj` are the queries of the heads of a part, their values, and their keys; then those of the next part. */
function sharedQkv({ config, weights }: LayerContext, prefix: string): ColumnParallelLinears {
  const { numHeads, headDim: n, hiddenSize } = config;
  const name = `${prefix}.qkv_proj`;
  const rows = 3 * hiddenSize;
  const partHeads = numHeads / PARTS;
  const own = weights.share.of(numHeads);
  const [queries, values, keys] = [0, 1, 2];
  const parts = [queries, keys, values].flatMap((kind) =>
    Array.from({ length: own.count }, (_, index) => {
      const head = own.first + index;
      const part = Math.floor(head / partHeads);
      const first = ((3 * part + kind) * partHeads + (head % partHeads)) * n;
      return { name, n, within: { rows, first }, shared: null };
    }),
  );
  return weights.columns(parts, hiddenSize);
}
