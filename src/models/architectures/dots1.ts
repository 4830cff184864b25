// dots.llm1: the attention of Qwen 3, and the experts of DeepSeek V3 (rednote-hilab, "dots.llm1 Technical Report", 2025).

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';
import { biasedMixture, expertsBesideShared, readGroupedExperts } from './deepseek-experts.ts';

export const dots1: Architecture = {
  architectures: ['Dots1ForCausalLM'],
  readConfig: (file) => {
    const config = readDecoderConfig(file, ({ attention_bias, sliding_window, max_window_layers }) => ({
      hasHeadNorms: true,
      qkvBias: attention_bias,
      attentionOutputBias: attention_bias,
      slidingWindow: sliding_window === undefined ? 4096 : sliding_window,
      slides: (layer) => layer >= (max_window_layers ?? 62),
    }));
    return { ...config, ...readGroupedExperts(file, config) };
  },
  load: (context) =>
    loadDecoder(context, { layer: preNormLayer({ feedForward: expertsBesideShared(biasedMixture) }) }),
};
