// Bodies that are parsed on the main thread leave turns of the event loop to others.

import { expect, it } from 'vitest';
import { JsonParser, MAX_BODY_AT_ONCE } from '../../src/http/json-parser.ts';
import { busyFor, turnsDuring } from '../helpers/turns.ts';

const NUM_BODIES = 300;
/** Takes as long to parse as any that is parsed at once. */
const BODY = Buffer.from(`[${'{},'.repeat(MAX_BODY_AT_ONCE / 3 - 2)}{}]`);

it('many bodies that come together are parsed in several turns', async () => {
  const parser = new JsonParser();
  const bodies = Array.from({ length: NUM_BODIES }, () => parser.parse(BODY));
  expect(await turnsDuring(Promise.all(bodies))).toBeGreaterThan(10);
  await parser.close();
});

it('what follows a body does not begin in a turn that has been long already', async () => {
  const parser = new JsonParser();
  await new Promise(setImmediate);
  let isLater = false;
  setImmediate(() => {
    isLater = true;
  });
  const parsed = parser.parse(Buffer.from('{"a":1}'));
  busyFor(10);
  expect(await parsed).toEqual({ a: 1 });
  expect(isLater).toBe(true);
  await parser.close();
});
