// What --speculative-config asks for, checked: which tokens are guessed ahead, and how many. The fields are those of vLLM.

import * as z from 'zod';
import { ConfigError, NotAvailableError } from '../errors.ts';
import { zodMessage } from '../util/zod-message.ts';
import { expecting, number } from './option-kinds.ts';
import { didYouMean } from './suggest.ts';

interface AnyMethod {
  /** Most tokens that are guessed in one step of a sequence. */
  readonly numSpeculativeTokens: number;
}

/** Guesses what followed the same few tokens earlier in the sequence. */
interface NgramConfig extends AnyMethod {
  readonly method: 'ngram';
  /** Most and fewest tokens at the end of the sequence that must have come before. */
  readonly promptLookupMax: number;
  readonly promptLookupMin: number;
}

/** Guesses what a second, smaller model samples greedily. */
interface DraftModelConfig extends AnyMethod {
  readonly method: 'draft_model';
  /** A folder, or a name on the hub. */
  readonly model: string;
}

export type SpeculativeConfig = NgramConfig | DraftModelConfig;

const OPTION = 'speculative-config';
const METHODS = ['ngram', 'draft_model'] as const;
/** Methods of the protocol that are not here. */
const OTHER_METHODS: readonly string[] = ['suffix', 'eagle', 'eagle3', 'medusa', 'mlp_speculator', 'mtp'];
/** Settings of the protocol that are not here. */
const OTHER_FIELDS: readonly string[] = [
  'disable_by_batch_size',
  'draft_tensor_parallel_size',
  'quantization',
  'max_model_len',
  'revision',
];

const MAX_TOKENS = 32;
const DEFAULT_TOKENS = 5;
const DEFAULT_LOOKUP = { max: 4, min: 2 };

type CheckedFields = z.output<typeof Fields>;

/** Null where not given, or given as null. */
function count(): z.ZodType<number | null> {
  return expecting<number | null>(
    number.pipe(z.int().min(1).max(MAX_TOKENS)),
    `a whole number from 1 to ${MAX_TOKENS}`,
    null,
  );
}

const Fields = z.object({
  method: expecting<string | null>(z.string().min(1), `one of ${METHODS.join(', ')}`, null),
  num_speculative_tokens: count(),
  prompt_lookup_max: count(),
  prompt_lookup_min: count(),
  model: expecting<string | null>(z.string().min(1), 'a folder or a name on the hub', null),
});

/**
 * Reads the JSON of --speculative-config; null where it asks for nothing.
 * @throws ConfigError naming the field, what is wrong with it and the fix.
 * @throws NotAvailableError for values of the protocol that this version does not support.
 */
export function parseSpeculativeConfig(
  json: Readonly<Record<string, unknown>> | null,
): SpeculativeConfig | null {
  const given = Object.entries(json ?? {}).filter(([, value]) => value !== null && value !== undefined);
  if (given.length === 0) return null;
  const fields = readFields(Object.fromEntries(given));
  const method = checkMethod(fields.method);
  const numSpeculativeTokens = fields.num_speculative_tokens ?? DEFAULT_TOKENS;
  return method === 'ngram'
    ? { method, numSpeculativeTokens, ...lookup(fields) }
    : { method, numSpeculativeTokens, model: draftModel(fields) };
}

function readFields(given: Readonly<Record<string, unknown>>): CheckedFields {
  const known = Object.keys(Fields.shape);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined && OTHER_FIELDS.includes(unknown)) throw notAvailable(unknown, 'leave it out');
  if (unknown !== undefined) throw fault(unknown, `unknown field${didYouMean(unknown, known)}`);
  const parsed = Fields.safeParse(Object.fromEntries(known.map((name) => [name, given[name]])));
  if (parsed.success) return parsed.data;
  throw new ConfigError(`--${OPTION}: ${zodMessage(parsed.error, given, '')}`, { param: OPTION });
}

function checkMethod(method: string | null): SpeculativeConfig['method'] {
  if (method === null) throw fault('method', `is missing: add one of ${METHODS.join(', ')}`);
  if (OTHER_METHODS.includes(method)) throw notAvailable(`method ${method}`, `use ${METHODS.join(' or ')}`);
  const found = METHODS.find((known) => known === method);
  if (found !== undefined) return found;
  throw fault(
    'method',
    `unknown method ${method}${didYouMean(method, METHODS)}; use ${METHODS.join(' or ')}`,
  );
}

function draftModel({ model, prompt_lookup_max: max, prompt_lookup_min: min }: CheckedFields): string {
  if (model === null)
    throw fault('model', 'is missing: method draft_model needs a folder or a name on the hub');
  if (max !== null || min !== null) {
    throw fault('prompt_lookup_max, prompt_lookup_min', 'are for method ngram: leave them out');
  }
  return model;
}

/** Where only one end is given, it is both. */
function lookup({
  prompt_lookup_max: max,
  prompt_lookup_min: min,
  model,
}: CheckedFields): Pick<NgramConfig, 'promptLookupMax' | 'promptLookupMin'> {
  if (model !== null)
    throw fault('model', 'method ngram needs no model: leave it out, or use method draft_model');
  const promptLookupMax = max ?? min ?? DEFAULT_LOOKUP.max;
  const promptLookupMin = min ?? max ?? DEFAULT_LOOKUP.min;
  if (promptLookupMin > promptLookupMax) {
    throw fault(
      'prompt_lookup_min',
      `${promptLookupMin} is more than prompt_lookup_max ${promptLookupMax}: give at most ${promptLookupMax}`,
    );
  }
  return { promptLookupMax, promptLookupMin };
}

function fault(name: string, what: string): ConfigError {
  return new ConfigError(`--${OPTION}: ${name}: ${what}`, { param: OPTION });
}

function notAvailable(what: string, instead: string): NotAvailableError {
  return new NotAvailableError(
    `--${OPTION}: ${what} is not available yet in this version of svc: ${instead}`,
    { param: OPTION },
  );
}
