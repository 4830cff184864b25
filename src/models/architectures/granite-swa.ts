// Granite with windows: most layers see a few tokens, each head has a sink, and layers rotate by a base of their own or not at all; with
// one MLP, or with the experts of Granite (IBM, 2026).

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadSinkAttention } from '../layers/attention.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import type { ConfigFile, DecoderTraits, ModelConfig } from '../model-config.ts';
import type { RopeConfig } from '../rope-config.ts';
import { readGranite } from './granite.ts';
import { graniteMixture, MIXTURE_NAME, withGraniteExperts } from './granite-moe.ts';

export const graniteSwa: Architecture = {
  architectures: ['GraniteSWAForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer: preNormLayer({ attention: loadSinkAttention }) }),
};

export const graniteMoeSwa: Architecture = {
  architectures: ['GraniteMoeSWAForCausalLM'],
  readConfig: (file) => withGraniteExperts(file, readConfig(file)),
  load: (context) =>
    loadDecoder(context, {
      layer: preNormLayer({
        attention: loadSinkAttention,
        feedForwardName: MIXTURE_NAME,
        feedForward: graniteMixture,
      }),
    }),
};

const ownFields = z.object({
  num_hidden_layers: z.int().positive(),
  sliding_window: z.int().positive().nullish(),
  /** The base of each layer's rotation; 0 is none. */
  layer_rope_theta: z.array(z.number().nonnegative()).nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const { path } = file;
  const own = checkModelJson(path, file.json, ownFields);
  const thetas = own.layer_rope_theta ?? null;
  if (thetas !== null && thetas.length !== own.num_hidden_layers) {
    throw new ModelLoadError(
      `${path}: layer_rope_theta must have a number for each of ${own.num_hidden_layers} layers, got ${thetas.length}`,
    );
  }
  return readGranite(file, {
    slidingWindow: own.sliding_window === undefined ? 128 : own.sliding_window,
    slides: (layer) => layer % 4 !== 0,
    ...(thetas && { ropeOf: ropeByTheta(thetas) }),
  });
}

/** The same object for layers of the same base. */
function ropeByTheta(thetas: readonly number[]): NonNullable<DecoderTraits['ropeOf']> {
  const ropes = new Map<number, RopeConfig>();
  return ({ index }, rope) => {
    const theta = thetas[index]!;
    if (theta === 0) return null;
    if (!ropes.has(theta)) ropes.set(theta, { ...rope, theta });
    return ropes.get(theta)!;
  };
}
