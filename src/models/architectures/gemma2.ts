// Gemma 2: norms before and behind each block, windows in every other layer, bounded logits (Gemma Team, 2024).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadAttention } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { type LoadNorm, rmsNormAround1 } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type DecoderTraits, readDecoderConfig } from '../model-config.ts';
import { gemmaTraits } from './gemma.ts';

export const gemma2: Architecture = {
  architectures: ['Gemma2ForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, (fields) => ({
      ...gemmaTraits(file, fields),
      ...scoreTraits(file, { attention: 50, final: 30 }),
      slidingWindow: fields.sliding_window === undefined ? 4096 : fields.sliding_window,
      slides: (layer) => layer % 2 === 0,
    })),
  load: (context) => loadDecoder(context, { layer: sandwichLayer(loadAttention), norm: rmsNormAround1 }),
};

const scoreFields = z.object({
  query_pre_attn_scalar: z.number().positive().nullish(),
  attn_logit_softcapping: z.number().positive().nullish(),
  final_logit_softcapping: z.number().positive().nullish(),
});

/** @param softcaps those of a config.json that does not speak of them. */
export function scoreTraits(
  file: ConfigFile,
  softcaps: { readonly attention: number | null; readonly final: number | null },
): DecoderTraits {
  const own = checkModelJson(file.path, file.json, scoreFields);
  const { attn_logit_softcapping: attention, final_logit_softcapping: final } = own;
  return {
    attentionScale: 1 / Math.sqrt(own.query_pre_attn_scalar ?? 256),
    attentionSoftcap: attention === undefined ? softcaps.attention : attention,
    logitSoftcap: final === undefined ? softcaps.final : final,
  };
}

/** Each block between two norms. */
export function sandwichLayer(attention: LoadBlock, norm: LoadNorm = rmsNormAround1): LoadLayer {
  return (context, layer, prefix) =>
    inOrder(
      attentionInSandwich(attention, norm)(context, layer, prefix),
      residual({
        before: norm(context, `${prefix}.pre_feedforward_layernorm`),
        block: gatedMlp(context, layer, `${prefix}.mlp`),
        after: norm(context, `${prefix}.post_feedforward_layernorm`),
      }),
    );
}

/** The first of the two. */
export function attentionInSandwich(attention: LoadBlock, norm: LoadNorm): LoadLayer {
  return (context, layer, prefix) =>
    residual({
      before: norm(context, `${prefix}.input_layernorm`),
      block: attention(context, layer, `${prefix}.self_attn`),
      after: norm(context, `${prefix}.post_attention_layernorm`),
    });
}
