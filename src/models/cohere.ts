// Command R (Cohere 1) and Command R7B and A (Cohere 2): attention and feed-forward side by side after one norm, neighbours
// rotated against each other. In Cohere 2, three layers of four have a window; the others know no positions.

import { z } from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import type { Architecture } from './architecture.ts';
import { loadDecoder } from './decoder.ts';
import { loadAttention } from './layers/attention.ts';
import type { LoadLayer } from './layers/layer.ts';
import { gatedMlp } from './layers/mlp.ts';
import { layerNormWithoutBias } from './layers/norm.ts';
import { type ConfigFields, type ConfigFile, type DecoderTraits, readDecoderConfig } from './model-config.ts';

export const cohere: Architecture = {
  architectures: ['CohereForCausalLM'],
  readConfig: (file) => readDecoderConfig(file, (fields) => cohereTraits(file, fields)),
  load: (context) => loadDecoder(context, { layer: parallelLayer, norm: layerNormWithoutBias }),
};

export const cohere2: Architecture = {
  architectures: ['Cohere2ForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, (fields) => {
      const { sliding_window_pattern: pattern } = checkModelJson(file.path, file.json, ownFields);
      return {
        ...cohereTraits(file, fields),
        slidingWindow: fields.sliding_window === undefined ? 4096 : fields.sliding_window,
        slides: (layer) => (layer + 1) % (pattern ?? 4) !== 0,
        ropeOf: ({ isSliding }, rope) => (isSliding ? rope : null),
      };
    }),
  load: cohere.load,
};

const ownFields = z.object({
  logit_scale: z.number().positive().nullish(),
  layer_norm_eps: z.number().positive().nullish(),
  use_qk_norm: z.boolean().nullish(),
  sliding_window_pattern: z.int().positive().nullish(),
});

function cohereTraits({ path, json }: ConfigFile, { attention_bias }: ConfigFields): DecoderTraits {
  const own = checkModelJson(path, json, ownFields);
  if (own.use_qk_norm) {
    throw new ModelLoadError(
      `${path}: use_qk_norm must be false: norms of each head's own are not supported`,
    );
  }
  return {
    normEps: own.layer_norm_eps ?? 1e-5,
    ropeIsInterleaved: true,
    qkvBias: attention_bias,
    attentionOutputBias: attention_bias,
    logitScale: own.logit_scale ?? 0.0625,
    tieWordEmbeddings: true,
  };
}

const parallelLayer: LoadLayer = (context, layer, prefix) => {
  const norm = layerNormWithoutBias(context, `${prefix}.input_layernorm`);
  const attention = loadAttention(context, layer, `${prefix}.self_attn`);
  const mlp = gatedMlp(context, layer, `${prefix}.mlp`);
  return (x, step) => {
    const h = norm(step, x, attention.inputDType);
    attention.addTo(x, step, h);
    mlp.addTo(x, step, h);
  };
};
