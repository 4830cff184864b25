// Gemma 3n, as GGUF names it: numbers of each layer, and one tensor of all products that make streams.

import { type GgufArchitecture, MODEL_MODULES, SANDWICH_NORMS } from './gguf-architecture.ts';
import { LAYER_INPUT_MODULES, LAYER_INPUT_TABLES } from './gguf-gemma4.ts';
import type { GgufKeys } from './gguf-keys.ts';

export const gemma3n: GgufArchitecture = {
  name: () => 'Gemma3nForCausalLM',
  fields: (keys) => ({
    intermediate_size: keys.ofLayers('feed_forward_length') ?? keys.need('feed_forward_length'),
    layer_types: keys.layerTypes,
    rope_local_base_freq: keys.ofModel('rope.freq_base_swa'),
    final_logit_softcapping: keys.ofModel('final_logit_softcapping') ?? undefined,
    num_kv_shared_layers: keys.need('attention.shared_kv_layers'),
    hidden_size_per_layer_input: keys.need('embedding_length_per_layer_input'),
    vocab_size_per_layer_input: keys.shapeOf('per_layer_token_embd.weight')?.[0],
    altup_num_inputs: keys.need('altup.num_inputs'),
    altup_active_idx: keys.need('altup.active_idx'),
    laurel_rank: keys.shapeOf('blk.0.laurel_l.weight')?.[0],
    activation_sparsity_scale: deviations(keys),
  }),
  modelModules: {
    ...MODEL_MODULES,
    ...LAYER_INPUT_TABLES,
    altup_proj: 'model.altup_projections.*',
    altup_unembd_proj: 'model.altup_unembed_projections.*',
  },
  modules: {
    ...SANDWICH_NORMS,
    ...LAYER_INPUT_MODULES,
    altup_router: 'altup.modality_router',
    altup_router_norm: 'altup.router_norm',
    altup_predict_coef: 'altup.prediction_coefs',
    altup_correct_coef: 'altup.correction_coefs',
    'altup_correct_scale.weight': 'altup.correct_output_scale',
    laurel_l: 'laurel.linear_left',
    laurel_r: 'laurel.linear_right',
    laurel_post_norm: 'laurel.post_laurel_norm',
  },
};

/** [layers] Where all gates of a layer count, converters write minus infinity; null here. */
function deviations(keys: GgufKeys): (number | null)[] {
  const key = 'gemma3n.activation_sparsity_scale';
  return keys.expect(key, keys.numbers(key)).map((one) => (one === Number.NEGATIVE_INFINITY ? null : one));
}
