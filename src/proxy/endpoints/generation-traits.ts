// What the generation endpoints have in common: the fields that decide about samples, seeds and who may compute the prompt.

import { randomInt } from 'node:crypto';
import type { JsonObject, RequestTraits } from './endpoint.ts';
import type { PromptShape } from './prompt.ts';

/** Seeds are whole numbers that every client language can hold. */
const NUM_SEEDS = 2 ** 31;
/** A client may name this in place of no seed. */
const NO_SEED = -1;

/** @param lengthField says how many tokens the answer may have. */
export function generationTraits(
  body: JsonObject,
  prompt: PromptShape,
  lengthField: 'max_tokens' | 'max_output_tokens' = 'max_tokens',
): RequestTraits {
  const isRandom = body.temperature !== 0 && body.use_beam_search !== true;
  const hasSeed = body.seed != null && body.seed !== NO_SEED;
  // Prompts of one request would share a seed, and equal ones among them would get equal answers.
  const needsSeed = isRandom && !hasSeed && prompt.count === 1;
  return {
    isStream: body.stream === true,
    prompt,
    numChoices: prompt.count * (typeof body.n === 'number' ? body.n : 1),
    addedFields: needsSeed ? { seed: randomInt(NUM_SEEDS) } : null,
    prefillFields: mayPrefillElsewhere(body) ? prefillFields(body, lengthField) : null,
    isRepeatable: !isRandom || needsSeed || hasSeed,
  };
}

/** A client may name this: the prompt is cut to what the answer leaves of the context. */
const WHAT_FITS = -1;

/**
 * Log-probabilities of the prompt, no token at all, and beams need the prompt computed where the answer is decoded. A prompt that is cut by
 * the length of the answer is another one where that is one token.
 */
function mayPrefillElsewhere(body: JsonObject): boolean {
  if (body.truncate_prompt_tokens === WHAT_FITS) return false;
  if (body.prompt_logprobs != null || body.use_beam_search === true || body.max_tokens === 0) return false;
  return !(body.echo === true && body.logprobs != null);
}

/** A prefill instance makes one token, whatever it is, and reports nothing: it would compile a constraint in vain. */
const PREFILL_FIELDS: JsonObject = {
  max_completion_tokens: 1,
  min_tokens: 0,
  stream: false,
  stream_options: null,
  n: 1,
  best_of: null,
  echo: false,
  logprobs: null,
  top_logprobs: null,
  logprob_token_ids: null,
  include: null,
  response_format: null,
  structured_outputs: null,
};
/** Fields with the `format` of the answer among others. */
const HOLDING_FORMATS = ['text', 'output_config'];

function prefillFields(body: JsonObject, lengthField: string): JsonObject {
  const given = Object.entries(PREFILL_FIELDS).filter(([name]) => body[name] != null);
  const holding = HOLDING_FORMATS.flatMap((name) => {
    const field = body[name];
    const holds = typeof field === 'object' && field !== null && 'format' in field;
    return holds ? [[name, { ...field, format: null }] as const] : [];
  });
  return { [lengthField]: 1, ...Object.fromEntries([...given, ...holding]) };
}
