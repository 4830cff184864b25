import { expect, it } from 'vitest';
import { environmentNotices, FOREIGN_VARIABLES } from '../../src/config/foreign-environment.ts';
import { SERVE_OPTIONS } from '../../src/config/options.ts';

it('a variable of another server that is set is told of by name, with what there is in its place', () => {
  const env = {
    SVC_HTTP_TIMEOUT_KEEP_ALIVE: '5',
    SVC_ATTENTION_BACKEND: 'FLASH_ATTN',
    SVC_USE_V1: '',
    SVC_API_KEY: 'a',
  };
  expect(environmentNotices(env)).toEqual([
    'the environment variable SVC_ATTENTION_BACKEND has no effect: use --attention-backend',
    'the environment variable SVC_HTTP_TIMEOUT_KEEP_ALIVE has no effect: the time for which idle connections are kept is fixed',
  ]);
});

it('none of them is one of svc, and the options that they name are there', () => {
  const own = SERVE_OPTIONS.keys.map((key) => SERVE_OPTIONS.info(key).env);
  expect([...FOREIGN_VARIABLES.keys()].filter((name) => own.includes(name))).toEqual([]);
  const named = [...FOREIGN_VARIABLES.values()].flatMap((reason) => reason.match(/--[a-z-]+/g) ?? []);
  expect(named.length).toBeGreaterThan(10);
  for (const flag of named) expect(SERVE_OPTIONS.find(flag.slice(2)), flag).not.toBeNull();
});
