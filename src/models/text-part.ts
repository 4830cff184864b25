// Models that see images, too: the part of them that reads and writes text, which is a model of its own within the whole.

import * as z from 'zod';
import { checkModelJson } from '../util/model-file.ts';
import type { ConfigFile } from './model-config.ts';
import { type PublishedNames, USUAL_NAMES } from './tensor-names.ts';

const wholeFields = z.object({
  text_config: z.record(z.string(), z.unknown()),
  eos_token_id: z.unknown().optional(),
  tie_word_embeddings: z.unknown().optional(),
  quantization_config: z.unknown().optional(),
  dtype: z.unknown().optional(),
  torch_dtype: z.unknown().optional(),
});

/**
 * config.json of the text part.
 * @param usual what published files leave out, since it is usual.
 */
export function textPart(file: ConfigFile, usual: Readonly<Record<string, unknown>> = {}): ConfigFile {
  const { text_config, tie_word_embeddings, ...outer } = checkModelJson(file.path, file.json, wholeFields);
  // Whether the head is tied is a matter of the whole model; some say only of the text part that it is.
  const isTied = tie_word_embeddings ?? (text_config.tie_word_embeddings === true ? true : undefined);
  return { ...file, json: { ...usual, ...outer, ...text_config, tie_word_embeddings: isTied } };
}

/** Names of its tensors within the whole, in newer files and in older ones. */
export const IN_WHOLE: PublishedNames = {
  ...USUAL_NAMES,
  roots: ['model.language_model.', 'language_model.model.'],
  heads: ['lm_head', 'language_model.lm_head'],
};
