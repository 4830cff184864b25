// The kinds of values that options take: from the command line, the environment and YAML alike.

import * as z from 'zod';
import { HEADER_SECRET } from '../util/header-secret.ts';
import { parseJson } from '../util/parse-json.ts';

export interface Kind<T> {
  /** What the help shows for the value; null for a flag that takes none. */
  readonly placeholder: string | null;
  /** Ends the sentence "expected ...". */
  readonly expected: string;
  readonly takesSeveral: boolean;
  readonly schema: z.ZodType<T>;
}

function kind<T>(placeholder: string | null, expected: string, schema: z.ZodType<T>): Kind<T> {
  return { placeholder, expected, schema, takesSeveral: false };
}

export function text(placeholder: string): Kind<string> {
  // YAML reads `served-model-name: 7` as a number; the writer meant the text.
  const scalar = z.union([z.string(), z.number().transform(String)]);
  return kind(placeholder, 'a text that is not empty', scalar.pipe(z.string().min(1)));
}

export function list(placeholder: string): Kind<string[]> {
  const one = text(placeholder).schema;
  const several = z.union([z.array(one).min(1), one.transform((value) => [value])]);
  return { ...kind(placeholder, 'one or more texts that are not empty', several), takesSeveral: true };
}

/** Keys of clients, as headers can carry them; files of secrets end with a line break, which is no part of one. */
export function keys(placeholder: string): Kind<string[]> {
  const key = text(placeholder).schema.pipe(z.string().trim().regex(HEADER_SECRET));
  const several = z.union([z.array(key).min(1), key.transform((value) => [value])]);
  const expected = 'one or more keys of visible characters, without blanks and letters with accents';
  return { ...kind(placeholder, expected, several), takesSeveral: true };
}

/** One or more texts that `pattern` matches, or one JSON list of them. */
export function matching(placeholder: string, pattern: RegExp, what: string): Kind<string[]> {
  const texts = z.array(z.string().regex(pattern)).min(1);
  const json = z.string().transform(parseJson).pipe(texts);
  const written = z.union([json, z.tuple([json]).transform(([list]) => list), texts]);
  const schema = z.union([
    written,
    z
      .string()
      .regex(pattern)
      .transform((value) => [value]),
  ]);
  return { ...kind(placeholder, what, schema), takesSeveral: true };
}

/** `schema`, with one sentence for whatever does not fit; `fallback` where nothing or null is given. */
export function expecting<T>(schema: z.ZodType<T>, expected: string, fallback: T): z.ZodType<T> {
  return z.unknown().transform((raw, context): T => {
    if (raw === undefined || raw === null) return fallback;
    const parsed = schema.safeParse(raw);
    if (parsed.success) return parsed.data;
    context.addIssue({ code: 'custom', message: `expected ${expected}` });
    return z.NEVER;
  });
}

export const number = z.union([z.number(), z.string().trim().min(1).pipe(z.coerce.number())]);

export function integer(min: number, max = Number.MAX_SAFE_INTEGER): Kind<number> {
  return kind('<n>', `a whole number ${range(min, max)}`, number.pipe(z.int().min(min).max(max)));
}

/** A whole number that is a multiple of `step`. */
export function multiple(step: number, max: number): Kind<number> {
  const schema = number.pipe(z.int().min(step).max(max).multipleOf(step));
  return kind('<n>', `a multiple of ${step} from ${step} to ${max}`, schema);
}

/** One of a few numbers. */
export function oneOf<const N extends number>(numbers: readonly N[]): Kind<N> {
  const schema = number.transform((value, context): N => {
    const found = numbers.find((known) => known === value);
    if (found !== undefined) return found;
    context.addIssue({ code: 'custom', message: 'not one of the numbers' });
    return z.NEVER;
  });
  return kind('<n>', `one of ${numbers.join(', ')}`, schema);
}

function range(min: number, max: number): string {
  return max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
}

const FACTORS: Readonly<Record<string, number>> = {
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
  K: 2 ** 10,
  M: 2 ** 20,
  G: 2 ** 30,
  T: 2 ** 40,
};

/** A whole number that may be written short: 1k is 1000, 1K is 1024, 25.6k is 25600. */
export function size(min: number, max = Number.MAX_SAFE_INTEGER): Kind<number> {
  const short = z
    .string()
    .regex(/^\s*\d+(\.\d+)?[kmgtKMGT]\s*$/)
    .transform((value) => {
      const trimmed = value.trim();
      return Math.round(Number(trimmed.slice(0, -1)) * (FACTORS[trimmed.slice(-1)] ?? 1));
    });
  const expected = `a whole number ${range(min, max)} (1k is 1000, 1K is 1024; so with m, g)`;
  return kind('<n>', expected, z.union([short, number]).pipe(z.int().min(min).max(max)));
}

/** The same, or the word; vLLM also writes -1 for it. */
export function sizeOrAuto(min: number): Kind<number | 'auto'> {
  const { placeholder, expected, schema } = size(min);
  const auto = z.union([z.literal('auto'), z.literal('-1'), z.literal(-1)]).transform(() => 'auto' as const);
  return kind(placeholder, `${expected} or auto`, z.union([auto, schema]));
}

export function share(): Kind<number> {
  return kind('<share>', 'a number above 0 and up to 1', number.pipe(z.number().gt(0).max(1)));
}

const MOST_SECONDS = 86_400;

export function seconds(): Kind<number> {
  const expected = `a number of seconds from 0 to ${MOST_SECONDS}`;
  return kind('<seconds>', expected, number.pipe(z.number().min(0).max(MOST_SECONDS)));
}

export function flag(): Kind<boolean> {
  const words = z.stringbool({ truthy: ['true', '1', 'yes', 'on'], falsy: ['false', '0', 'no', 'off'] });
  return kind(
    null,
    'true or false',
    z.union([z.boolean(), z.union([z.literal(0), z.literal(1)]).transform(Boolean), words]),
  );
}

/** One of `values`, in any case of letters; `synonyms` are other spellings of the same. */
export function choice<const V extends string>(
  values: readonly V[],
  synonyms: Readonly<Record<string, V>> = {},
): Kind<V> {
  const spellings = new Map<string, V>([
    ...values.map((value): [string, V] => [value.toLowerCase(), value]),
    ...Object.entries(synonyms),
  ]);
  const schema = z.string().transform((value, context): V => {
    const found = spellings.get(value.trim().toLowerCase());
    if (found !== undefined) return found;
    context.addIssue({ code: 'custom', message: 'not one of the values' });
    return z.NEVER;
  });
  return kind('<name>', `one of ${values.join(', ')}`, schema);
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** A JSON object: as text, or as the object that YAML and dotted flags make. */
export function json(): Kind<JsonObject> {
  const object = z.record(z.string(), z.unknown());
  const fromText = z.string().transform((value, context): JsonObject => {
    const parsed = object.safeParse(parseJson(value));
    if (parsed.success) return parsed.data;
    context.addIssue({ code: 'custom', message: 'not a JSON object' });
    return z.NEVER;
  });
  return kind('<json>', 'a JSON object such as {"key": "value"}', z.union([object, fromText]));
}
