// The sampling parameters of a request, or those of beam search in their place.

import type { InferenceEngine } from '../engine/inference-engine.ts';
import { InvalidRequestError, NotAvailableError } from '../errors.ts';
import { type BeamSearchParams, resolveBeamSearchParams } from '../sampling/beam-search-params.ts';
import type { SamplingFields } from '../sampling/sampling-fields.ts';
import { resolveSamplingParams, type SamplingParams } from '../sampling/sampling-params.ts';
import {
  oneConstraint,
  type RequestConstraint,
  responseFormatConstraint,
} from '../sampling/structured-outputs.ts';
import type { CommonFields } from './protocol/common-fields.ts';

export interface ReadSampling {
  readonly params: SamplingParams;
  /** Null samples. */
  readonly beamSearch: BeamSearchParams | null;
}

/** Fields that beam search does not use, with the values that ask for nothing. */
const NOT_FOR_BEAMS: Readonly<Record<string, readonly unknown[]>> = {
  top_p: [1],
  top_k: [0, -1],
  min_p: [0],
  stop: [],
  stop_token_ids: [],
  min_tokens: [0],
  presence_penalty: [0],
  frequency_penalty: [0],
  repetition_penalty: [1],
  logit_bias: [],
  allowed_token_ids: [],
  bad_words: [],
  structured_outputs: [],
  logprobs: [],
  prompt_logprobs: [],
  logprob_token_ids: [],
  repetition_detection: [],
};

/**
 * @param own fields that the endpoint reads in its own way; they win over those of the body.
 * @param ownConstraint what fields of the endpoint's own say of the answer.
 * @throws InvalidRequestError for fields that contradict each other.
 */
export function readSampling(
  body: CommonFields,
  own: Pick<SamplingFields, 'max_tokens' | 'logprobs' | 'prompt_logprobs'>,
  engine: InferenceEngine,
  ownConstraint: RequestConstraint | null = null,
): ReadSampling {
  const given: SamplingFields = { ...body, ...own, detokenize: true };
  const asked = [responseFormatOf(body), ownConstraint];
  if (body.use_beam_search) return readBeamSearch(body, given, engine, asked);
  // A stream cannot carry those of the prompt: 0 asks for next to nothing, more has been refused.
  const prompt_logprobs = body.stream && body.prompt_logprobs === 0 ? null : given.prompt_logprobs;
  const params = resolveSamplingParams({ ...given, prompt_logprobs }, engine.samplingDefaults);
  return {
    params: { ...params, constraint: oneConstraint([params.constraint, ...asked]) },
    beamSearch: null,
  };
}

function responseFormatOf({ response_format }: CommonFields): RequestConstraint | null {
  const constraint = response_format == null ? null : responseFormatConstraint(response_format);
  return constraint === null ? null : { constraint, field: 'response_format' };
}

function readBeamSearch(
  body: CommonFields,
  given: SamplingFields,
  engine: InferenceEngine,
  asked: readonly (RequestConstraint | null)[],
): ReadSampling {
  for (const [field, neutral] of Object.entries(NOT_FOR_BEAMS)) checkNotForBeams(field, given, neutral);
  const constraint = oneConstraint(asked);
  if (constraint !== null) throw notForBeams(constraint.field);
  const { n, max_tokens, ignore_eos, include_stop_str_in_output } = given;
  const { maxModelLen, maxOutputTokens } = engine.limits;
  const beamSearch = renaming({ beam_width: 'n' }, () =>
    resolveBeamSearchParams(
      {
        beam_width: n ?? 1,
        max_tokens: Math.min(max_tokens ?? maxModelLen, maxOutputTokens ?? maxModelLen),
        ignore_eos,
        temperature: given.temperature ?? 1,
        length_penalty: body.length_penalty,
        include_stop_str_in_output,
      },
      engine.limits,
    ),
  );
  const { skip_special_tokens, spaces_between_special_tokens, truncate_prompt_tokens, truncation_side } =
    given;
  const texts = {
    skip_special_tokens,
    spaces_between_special_tokens,
    truncate_prompt_tokens,
    truncation_side,
  };
  const params = resolveSamplingParams({ n, max_tokens, ignore_eos, include_stop_str_in_output, ...texts });
  return { params, beamSearch };
}

function checkNotForBeams(field: string, given: SamplingFields, neutral: readonly unknown[]): void {
  const value: unknown = Reflect.get(given, field);
  if (value === null || value === undefined || neutral.includes(value)) return;
  if (typeof value === 'object' && Object.keys(value).length === 0) return;
  throw notForBeams(field);
}

export function notForBeams(field: string): InvalidRequestError {
  return new InvalidRequestError(`${field} has no effect on beam search: leave it out or use_beam_search`, {
    param: field,
  });
}

/** Runs `read`; an error about a field that the request has under another name gets that name. */
function renaming<T>(names: Readonly<Record<string, string>>, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw renamed(names, error);
  }
}

/** @returns what throws an error again, with the name that the request has for its field. */
export function rethrowRenamed(names: Readonly<Record<string, string>>): (error: unknown) => never {
  return (error) => {
    throw renamed(names, error);
  };
}

export function renamed(names: Readonly<Record<string, string>>, error: unknown): unknown {
  if (!(error instanceof InvalidRequestError || error instanceof NotAvailableError)) return error;
  if (error.param === null) return error;
  const param = names[error.param];
  if (param === undefined) return error;
  const { message, param: own } = error;
  const told = message.startsWith(own) ? `${param}${message.slice(own.length)}` : message;
  return new InvalidRequestError(told, { param, cause: error });
}
