// What a schema of the official tests does to their instances, and to a text of its own: the test examines some of the schemas,
// the benchmark all of them.

import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { ByteAutomaton } from '../../src/structured-output/byte-automaton.ts';
import { compile } from '../../src/structured-output/compile.ts';
import { ConstraintError } from '../../src/structured-output/limits.ts';
import { accepts, randomText, seededRandom } from './byte-walk.ts';
import type { SuiteGroup } from './json-schema-suite.ts';

/** Every so many schemas are walked through, and the bytes after which a walk hurries to its end. */
const WALKED = 5;
const WALK_BYTES = 24;

export interface Outcome {
  readonly group: SuiteGroup;
  readonly verdict: 'enforced' | 'refused' | 'wrong';
  readonly why: string;
}

const AJV_OPTIONS = {
  strict: false,
  validateFormats: false,
  validateSchema: false,
  multipleOfPrecision: 8,
  logger: false,
} as const;

/** Every valid instance must be possible and every invalid one impossible, in any order and layout, and what is generated valid. */
export function examine(group: SuiteGroup, index: number): Outcome {
  let automaton: ByteAutomaton;
  try {
    automaton = new ByteAutomaton(
      compile({ kind: 'jsonSchema', schema: group.schema, style: { ignoreFormats: true } }),
    );
  } catch (thrown) {
    if (!(thrown instanceof ConstraintError)) return { group, verdict: 'wrong', why: String(thrown) };
    const isImpossible = /allows no text/.test(thrown.message) && group.tests.every(({ valid }) => !valid);
    return { group, verdict: isImpossible ? 'enforced' : 'refused', why: thrown.message };
  }
  const fault =
    faultOfInstances(automaton, group) ??
    (index % WALKED === 0 ? faultOfWalk(automaton, group, index) : null);
  return { group, verdict: fault === null ? 'enforced' : 'wrong', why: fault ?? '' };
}

function faultOfInstances(automaton: ByteAutomaton, { tests }: SuiteGroup): string | null {
  for (const { data, valid, description } of tests) {
    const texts = [
      JSON.stringify(data),
      JSON.stringify(data, null, 2),
      JSON.stringify(reversed(data), null, '\t'),
    ];
    for (const text of texts)
      if (accepts(automaton, text) !== valid)
        return `${description}: ${valid ? 'impossible' : 'possible'}: ${text}`;
  }
  return null;
}

function faultOfWalk(
  automaton: ByteAutomaton,
  { draft, schema, tests }: SuiteGroup,
  seed: number,
): string | null {
  const ajv = draft === 'draft7' ? new Ajv(AJV_OPTIONS) : new Ajv2020(AJV_OPTIONS);
  if (typeof schema !== 'boolean' && (typeof schema !== 'object' || schema === null)) return 'is no schema';
  let validate: ValidateFunction;
  try {
    validate = ajv.compile(schema);
  } catch {
    return null;
  }
  // It does not know all of references: it is no judge of schemas whose own tests it gets wrong.
  if (tests.some(({ data, valid }) => validate(data) !== valid)) return null;
  const random = seededRandom(seed);
  try {
    const text = randomText(automaton, WALK_BYTES, random);
    return validate(JSON.parse(text)) ? null : `a walk gave ${text}: ${ajv.errorsText(validate.errors)}`;
  } catch (thrown) {
    return `a walk failed: ${thrown}`;
  }
}

/** The same value with its keys in the other order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, inner]) => [name, reversed(inner)]),
  );
}
