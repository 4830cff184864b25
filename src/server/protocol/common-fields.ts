// Fields that completions and chat completions share: served, refused, ignored.

import * as z from 'zod';
import { EMPTY, samplingFields, unavailableSamplingFields } from '../../sampling/sampling-fields.ts';
import { responseFormatSchema } from '../../sampling/structured-outputs.ts';
import { streamResume } from './stream-resume.ts';

/** As many as the protocol's own service makes. */
const MAX_SAMPLES = 128;
/** Characters; it is kept as long as the request. */
const MAX_SALT = 256;

const streamOptions = z.looseObject({
  include_usage: z.boolean().nullish(),
  continuous_usage_stats: z.boolean().nullish(),
});

// How logprobs are asked for is each endpoint's own; `detokenize` is no field of the protocol.
const { logprobs: _logprobs, detokenize: _detokenize, ...sharedSamplingFields } = samplingFields;
const {
  use_beam_search: _beams,
  length_penalty: _penalty,
  ...unavailableSampling
} = unavailableSamplingFields;

/** Samples of one prompt. */
export const numSamples = z.int().min(1).max(MAX_SAMPLES);

/** Served by both endpoints; null and absent mean the default. */
export const commonFields = {
  ...sharedSamplingFields,
  n: numSamples.nullish(),
  use_beam_search: z.boolean().nullish(),
  length_penalty: z.number().nullish(),
  model: z.string().nullish(),
  stream: z.boolean().nullish(),
  stream_options: streamOptions.nullish(),
  echo: z.boolean().nullish(),
  add_special_tokens: z.boolean().nullish(),
  request_id: z
    .string()
    .regex(/^[\x21-\x7e]{1,256}$/, 'must be 1 to 256 printable ASCII characters without spaces')
    .nullish(),
  return_token_ids: z.boolean().nullish(),
  return_tokens_as_token_ids: z.boolean().nullish(),
  priority: z.int().nullish(),
  cache_salt: z.string().min(1, 'must not be empty').max(MAX_SALT).nullish(),
  /** Tokens of each chunk of a stream but the first and the last. */
  stream_interval: z.int().min(1).nullish(),
  svc_resume: streamResume.nullish(),
  response_format: responseFormatSchema.nullish(),
} as const;

export type CommonFields = z.output<z.ZodObject<typeof commonFields>>;

/** Known to the protocol and refused by both endpoints, with the values that ask for nothing. */
export const unavailableFields: Readonly<Record<string, readonly unknown[]>> = {
  ...unavailableSampling,
  // An empty one asks for something too: `{}` is the schema of any JSON.
  guided_json: [],
  guided_regex: [],
  guided_choice: [],
  guided_grammar: [],
  svc_xargs: [EMPTY],
  vllm_xargs: [EMPTY],
  ec_transfer_params: [EMPTY],
  thinking_token_budget: [],
};

/** What says the same as fields that other servers had before it. */
export const replacements: ReadonlyMap<string, string> = new Map(
  ['json', 'regex', 'choice', 'grammar'].map((kind) => [
    `guided_${kind}`,
    `send the same as structured_outputs: {"${kind}": ...}`,
  ]),
);

/**
 * Harmless: they name the user, say how the answer is billed, or what another instance has: here the request's id says that, and
 * what no instance has is computed.
 */
export const ignoredFields: ReadonlySet<string> = new Set([
  'user',
  'metadata',
  'service_tier',
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_retention',
  'prompt_cache_options',
  'session_id',
  'kv_transfer_params',
]);
