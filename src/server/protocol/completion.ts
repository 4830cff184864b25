// POST /v1/completions on the wire: the schema of requests.

import * as z from 'zod';
import { EMPTY } from '../../sampling/sampling-fields.ts';
import { commonFields, numSamples, unavailableFields } from './common-fields.ts';
import { promptsSchema } from './prompt.ts';

const MAX_PROMPTS = 1024;

export const completionSchema = z.looseObject({
  ...commonFields,
  prompt: promptsSchema(MAX_PROMPTS),
  /** 0 is possible with `echo`: the prompt alone comes back. */
  max_tokens: z.int().min(0, 'must be at least 1').nullish(),
  /** Most probable tokens beside each token; -1 for the whole vocabulary. */
  logprobs: z.int().min(-1).nullish(),
  /** Samples of which the `n` most probable are the answer. */
  best_of: numSamples.nullish(),
});

export type CompletionRequest = z.output<typeof completionSchema>;

const { best_of: _served, ...unavailableBesides } = unavailableFields;

/** Refused, with the values that ask for nothing. */
export const unavailableCompletionFields: Readonly<Record<string, readonly unknown[]>> = {
  ...unavailableBesides,
  suffix: [''],
  prompt_embeds: [EMPTY],
};
