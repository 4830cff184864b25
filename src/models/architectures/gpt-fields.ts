// What GPT-2 calls in a way of its own in config.json and among its tensors, and with it GPT-J and CodeGen.

import * as z from 'zod';

const size = z.int().positive();

export const gptFields = z.looseObject({
  n_embd: size,
  n_inner: size.nullish(),
  n_layer: size,
  n_head: size,
  n_positions: size,
  activation_function: z.string().nullish(),
  layer_norm_epsilon: z.number().positive().nullish(),
});

/** config.json with the fields under the names that other architectures have for them. */
export function inUsualFields(own: z.infer<typeof gptFields>): object {
  return {
    ...own,
    hidden_size: own.n_embd,
    intermediate_size: own.n_inner ?? 4 * own.n_embd,
    num_hidden_layers: own.n_layer,
    num_attention_heads: own.n_head,
    max_position_embeddings: own.n_positions,
    hidden_act: own.activation_function ?? 'gelu_new',
  };
}

export const GPT_NAMES = {
  roots: ['transformer.', ''],
  embedding: 'wte',
  layers: 'h',
  finalNorm: 'ln_f',
  heads: ['lm_head'],
} as const;
