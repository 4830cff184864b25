// Qwen 1.5 to 2.5: as Llama, with biases on queries, keys and values and nowhere else.

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFields, type DecoderTraits, readDecoderConfig } from '../model-config.ts';

export const qwen2: Architecture = {
  architectures: ['Qwen2ForCausalLM'],
  readConfig: (file) => readDecoderConfig(file, (fields) => ({ ...qwenWindows(fields), qkvBias: true })),
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};

/** Windows only where `use_sliding_window`, and only from layer `max_window_layers` on. */
export function qwenWindows(fields: ConfigFields): DecoderTraits {
  return {
    slidingWindow: fields.use_sliding_window ? (fields.sliding_window ?? 4096) : null,
    slides: (layer) => layer >= (fields.max_window_layers ?? 28),
  };
}
