// Puts what zod found into words: the field's path, the rule, the value.

import type { z } from 'zod';
import { preview, shortened } from './preview.ts';

type Issue = z.core.$ZodIssue;

/** Rules that a schema words itself start like this and are taken as they are. */
const OWN_WORDS = /^must |^has |^is /;
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

/** `max_tokens must be at least 1, got -3`. */
export function describeIssue(issue: Issue, body: unknown): string {
  const meant = issue.code === 'invalid_union' ? deepestBranch(issue) : undefined;
  if (meant !== undefined) return describeIssue({ ...meant, path: [...issue.path, ...meant.path] }, body);
  const value = valueAt(issue.path, body);
  const got = value === undefined ? '' : `, got ${preview(value)}`;
  return `${pathOf(issue.path)} ${ruleOf(issue)}${got}`;
}

/** `messages[0].content` */
function pathOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'The body';
  const joined = path
    .map((key) => (typeof key === 'number' ? `[${key}]` : `.${shortened(String(key))}`))
    .join('');
  return joined.replace(/^\./, '');
}

function valueAt(path: readonly PropertyKey[], body: unknown): unknown {
  let value = body;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function ruleOf(issue: Issue): string {
  if (OWN_WORDS.test(issue.message)) return issue.message;
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
      return `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`;
    case 'invalid_union':
      return unionRule(issue);
    case 'invalid_key':
      return `is not accepted: ${issue.issues[0]?.message ?? 'wrong key'}`;
    default:
      return `is not accepted: ${issue.message}`;
  }
}

/** The branch of a union that was meant: the one that looked inside the value. */
function deepestBranch(issue: Issue & { code: 'invalid_union' }): Issue | undefined {
  return issue.errors.flat().find(({ path }) => path.length > 0);
}

/** Every branch is a choice. */
function unionRule(issue: Issue & { code: 'invalid_union' }): string {
  const rules = issue.errors.flatMap((branch) => branch.slice(0, 1)).map((first) => ruleOf(first));
  return `must be ${[...new Set(rules.map((rule) => rule.replace(/^must be /, '')))].join(' or ')}`;
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
