// Qwen3-MoE: Qwen 3 with experts in the place of the MLP, none of them shared.
// Source: Qwen Team, "Qwen3 Technical Report", 2025.

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expertsOrMlp, loadMixture } from '../layers/mixture.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';
import { readQwenExperts } from './qwen2-moe.ts';
import { qwen3Traits } from './qwen3.ts';

export const qwen3Moe: Architecture = {
  architectures: ['Qwen3MoeForCausalLM'],
  readConfig: (file) => {
    // Unlike in Qwen 3: a window that is used is every layer's.
    const config = readDecoderConfig(file, (fields) => ({ ...qwen3Traits(fields), slides: () => true }));
    return { ...config, experts: readQwenExperts(file, config) };
  },
  load: (context) => loadDecoder(context, { layer }),
};

const layer = preNormLayer({
  feedForward: expertsOrMlp((context, _layer, prefix) => loadMixture(context, prefix)),
});
