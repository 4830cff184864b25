// Renders zod issues for people: path of the field, rule, value. All errors about outside data share one wording.

import type * as z from 'zod';
import { preview, shortened } from './preview.ts';

type Issue = z.core.$ZodIssue;

/** A schema's own message is used as it is when it starts like this. */
const OWN_RULE = /^(must|has|is) /;
/** So is the sentence of a table of options. */
const OWN_SENTENCE = /^expected /;
const TYPE_NAMES: Readonly<Record<string, string>> = {
  int: 'an integer',
  number: 'a number',
  string: 'a string',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
  null: 'null',
};

/**
 * The first thing that is wrong with `value`: `max_tokens must be at least 1, got -3`.
 * @param whole what to call the value where it is wrong as a whole.
 */
export function zodMessage(error: z.ZodError, value: unknown, whole: string): string {
  return describeIssue(error.issues[0]!, value, whole);
}

/** One thing that is wrong with `value`, worded as in `zodMessage`. */
export function describeIssue(issue: Issue, value: unknown, whole: string): string {
  const meant = issue.code === 'invalid_union' ? deepestBranch(issue) : undefined;
  if (meant !== undefined) {
    return describeIssue({ ...meant, path: [...issue.path, ...meant.path] }, value, whole);
  }
  const wrong = wrongPart(issue, value);
  const got = wrong === undefined ? '' : `, got ${preview(wrong)}`;
  const field = pathOf(issue.path) || whole;
  if (OWN_SENTENCE.test(issue.message)) return `${field}: ${issue.message}${got}`;
  const missing = isMissing(issue, value) ? ' is missing: it' : '';
  return `${field}${missing} ${ruleOf(issue)}${got}`;
}

/** Whether a field of an object that is there is not. */
function isMissing({ path }: Issue, value: unknown): boolean {
  const parent = valueAt(path.slice(0, -1), value);
  return (
    path.length > 0 && typeof parent === 'object' && parent !== null && valueAt(path, value) === undefined
  );
}

/** What of `value` breaks the rule; undefined where its place says it all. */
function wrongPart(issue: Issue, value: unknown): unknown {
  const found = valueAt(issue.path, value);
  if (found === undefined || issue.code === 'unrecognized_keys') return undefined;
  return issue.code === 'invalid_key' ? issue.path.at(-1) : found;
}

/** `messages[0].content` */
function pathOf(path: readonly PropertyKey[]): string {
  const joined = path.map((key) => (typeof key === 'number' ? `[${key}]` : `.${shortened(String(key))}`));
  return joined.join('').replace(/^\./, '');
}

function valueAt(path: readonly PropertyKey[], whole: unknown): unknown {
  let value = whole;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function ruleOf(issue: Issue): string {
  if (OWN_RULE.test(issue.message)) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${typeName(issue.expected)}`;
    case 'too_small':
      return issue.inclusive === false
        ? `must be greater than ${issue.minimum}`
        : `must ${bound(issue.origin, 'at least', Number(issue.minimum))}`;
    case 'too_big':
      return issue.inclusive === false
        ? `must be less than ${issue.maximum}`
        : `must ${bound(issue.origin, 'at most', Number(issue.maximum))}`;
    case 'invalid_value':
      return oneOf(issue.values);
    case 'invalid_union':
      return unionRule(issue);
    case 'unrecognized_keys':
      return `has no field ${issue.keys.map((key) => shortened(key)).join(', ')}`;
    case 'invalid_key':
      return `is not accepted: ${issue.issues[0]?.message ?? 'wrong key'}`;
    default:
      return `is not accepted: ${issue.message}`;
  }
}

/** The branch of a union that the sender probably meant: the one that looked inside the value. */
function deepestBranch(issue: Issue & { code: 'invalid_union' }): Issue | undefined {
  return issue.errors.flat().find(({ path }) => path.length > 0);
}

/** All branches as alternatives: `must be a string or an array`. Where one field tells them apart, its values. */
function unionRule(issue: Issue & { code: 'invalid_union' }): string {
  if ('options' in issue && issue.options !== undefined) return oneOf(issue.options);
  const rules = issue.errors.flatMap((branch) => branch.slice(0, 1)).map((first) => ruleOf(first));
  return `must be ${[...new Set(rules.map((rule) => rule.replace(/^must be /, '')))].join(' or ')}`;
}

function oneOf(values: readonly z.core.util.Primitive[]): string {
  return `must be ${values.map((value) => JSON.stringify(value)).join(' or ')}`;
}

function bound(origin: string, direction: string, limit: number): string {
  const plural = limit === 1 ? '' : 's';
  if (origin === 'array' || origin === 'set') return `have ${direction} ${limit} element${plural}`;
  if (origin === 'string') return `have ${direction} ${limit} character${plural}`;
  return `be ${direction} ${limit}`;
}

function typeName(expected: string): string {
  return TYPE_NAMES[expected] ?? expected;
}
