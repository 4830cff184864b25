// The sampling parameters of a call: one complete set for each of its prompts.

import { programError } from '../config/program-words.ts';
import { InvalidRequestError } from '../errors.ts';
import {
  parseSamplingFields,
  SAMPLING_FIELD_NAMES,
  type SamplingInput,
} from '../sampling/sampling-fields.ts';
import {
  checkSamplesDiffer,
  resolveSamplingParams,
  type SamplingDefaults,
  type SamplingParams,
} from '../sampling/sampling-params.ts';
import { OPTION_NAMES } from './call-options.ts';
import { checkNames } from './check-names.ts';

/** One set of sampling fields for all prompts, or one each; null takes the model's own defaults. */
export type SamplingParamsInput = SamplingInput | readonly SamplingInput[] | null;

/** The protocol's default. */
const DEFAULT_MAX_TOKENS = 16;

/**
 * One set a prompt. Fields that a given set leaves out take the protocol's defaults, not the model's.
 * @throws InvalidRequestError for a wrong number of sets or a wrong field.
 */
export function resolveSets(
  input: SamplingParamsInput,
  count: number,
  modelDefaults: SamplingDefaults,
): SamplingParams[] {
  if (input === null) {
    const defaults = { max_tokens: DEFAULT_MAX_TOKENS, ...modelDefaults };
    return Array.from({ length: count }, () => resolveSamplingParams({}, defaults));
  }
  const list = isList(input) ? input : Array.from({ length: count }, () => input);
  if (list.length !== count) {
    throw new InvalidRequestError(
      `there must be one set of sampling parameters, or one for each of the ${count} prompts, got ${list.length}`,
      { param: 'samplingParams' },
    );
  }
  return list.map((given, index) => {
    try {
      return resolveOne(given);
    } catch (error) {
      throw programError(error, list === input ? `samplingParams[${index}]: ` : '');
    }
  });
}

function resolveOne(given: SamplingInput): SamplingParams {
  checkNames(given, {
    subject: 'sampling parameters',
    example: '{ temperature: 0 }',
    known: SAMPLING_FIELD_NAMES,
    refusal: (name) => `there is no sampling parameter ${name}`,
    elsewhere: { names: OPTION_NAMES, hint: 'it is an option, and they come behind the sampling parameters' },
  });
  // A max_tokens of null asks for all that fits; only one left out gets the default.
  const params = resolveSamplingParams(
    parseSamplingFields(given),
    given.max_tokens === null ? {} : { max_tokens: DEFAULT_MAX_TOKENS },
  );
  checkSamplesDiffer(params);
  return params;
}

function isList(input: SamplingInput | readonly SamplingInput[]): input is readonly SamplingInput[] {
  return Array.isArray(input);
}
