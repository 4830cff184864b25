// Mistral: as Llama, without biases; its layers see a window of the newest tokens where the config sets one.

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

export const mistral: Architecture = {
  architectures: ['MistralForCausalLM'],
  readConfig: readMistral,
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};

export function readMistral(file: ConfigFile): ModelConfig {
  return readDecoderConfig(file, ({ sliding_window }) => ({
    // The first release left its 4096 to the default; later ones say null.
    slidingWindow: sliding_window === undefined ? 4096 : sliding_window,
  }));
}
