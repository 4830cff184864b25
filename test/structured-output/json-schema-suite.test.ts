import { beforeAll, describe, expect, it } from 'vitest';
import { examine, type Outcome } from '../helpers/examine-schema.ts';
import { readSuite, type SuiteGroup } from '../helpers/json-schema-suite.ts';

/** Of each keyword the first schema and every so many after it; `npm run bench -- structured-output` examines all. */
const SAMPLED = 4;
/** Of those, the ones that are not refused. */
const ENFORCED = 179;

describe('the official tests of JSON Schema', () => {
  let outcomes: Outcome[] = [];

  beforeAll(() => {
    outcomes = sample().map(examine);
  }, 120_000);

  it('finds every valid instance possible and every invalid one impossible, in any order and layout', () => {
    const wrong = outcomes.filter(({ verdict }) => verdict === 'wrong');
    expect(
      wrong.map(({ group, why }) => `${group.draft} ${group.file}: ${group.description}: ${why}`),
    ).toEqual([]);
  });

  it('refuses only what refers to other documents or cannot be known while a text is written', () => {
    const refused = outcomes.filter(({ verdict }) => verdict === 'refused');
    const known =
      /not in this schema|several meanings|uniqueItems|minProperties|multipleOf|\$schema|excludes|alternatives/;
    expect(refused.filter(({ why }) => !known.test(why)).map(({ why }) => why)).toEqual([]);
    expect(outcomes.length - refused.length).toBe(ENFORCED);
  });
});

function sample(): SuiteGroup[] {
  const seen = new Map<string, number>();
  return readSuite().filter(({ draft, file }) => {
    const index = seen.get(`${draft} ${file}`) ?? 0;
    seen.set(`${draft} ${file}`, index + 1);
    return index % SAMPLED === 0;
  });
}
