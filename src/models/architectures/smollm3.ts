// SmolLM3: as Llama, and every fourth layer knows no positions (NoPE; Bakouch et al., 2025).

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, readDecoderConfig } from '../model-config.ts';

export const smollm3: Architecture = {
  architectures: ['SmolLM3ForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, (fields) => {
      const rotates = rotatingLayers(file, fields.num_hidden_layers);
      return {
        qkvBias: fields.attention_bias,
        attentionOutputBias: fields.attention_bias,
        mlpBias: fields.mlp_bias,
        tieWordEmbeddings: true,
        // Where layers are listed, the list alone decides.
        slidingWindow:
          fields.use_sliding_window || fields.layer_types ? (fields.sliding_window ?? null) : null,
        slides: (layer) => !rotates(layer),
        ropeTheta: 2_000_000,
        ropeOf: ({ index }, rope) => (rotates(index) ? rope : null),
      };
    }),
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};

const ownFields = z.object({
  /** 1 where a layer rotates, in spite of its name. */
  no_rope_layers: z.array(z.int()).nullish(),
  no_rope_layer_interval: z.int().positive().nullish(),
});

/** Whether each layer rotates. */
export function rotatingLayers({ path, json }: ConfigFile, numLayers: number): (layer: number) => boolean {
  const { no_rope_layers: listed, no_rope_layer_interval } = checkModelJson(path, json, ownFields);
  if (!listed) return (layer) => (layer + 1) % (no_rope_layer_interval ?? 4) !== 0;
  if (listed.length === numLayers) return (layer) => listed[layer] !== 0;
  throw new ModelLoadError(`${path}: no_rope_layers must name ${numLayers} layers, got ${listed.length}`);
}
