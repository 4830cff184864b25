import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { mistypedVariables } from '../../src/config/mistyped-environment.ts';

it.each([
  ['SVC_API_KEYS', 'SVC_API_KEY'],
  ['SVC_APIKEY', 'SVC_API_KEY'],
  ['SVC_LOG_LEVEL', 'SVC_LOGGING_LEVEL'],
  ['SVC_USE_ALT_MODELHUB', 'SVC_USE_ALT_MODEL_HUB'],
])('%s is told of, and that %s was meant, but not what it is set to', (name, meant) => {
  expect(mistypedVariables({ [name]: 'secret' })).toEqual([
    `there is no environment variable ${name}; did you mean ${meant}?`,
  ]);
});

it.each([
  'SVC_SERVICE_HOST',
  'SVC_SERVICE_PORT',
  'SVC_SERVICE_PORT_HTTP',
  'SVC_PORT',
  'SVC_PORT_8000_TCP_ADDR',
  'SVC_PROXY_SERVICE_HOST',
  'SVC_OF_SOMETHING_ELSE',
  'OTHER_API_KEYS',
])('nothing is said of %s', (name) => {
  expect(mistypedVariables({ [name]: 'tcp://10.0.0.1:8000' })).toEqual([]);
});

it('those that the reference has are known', () => {
  const names = readFileSync('docs/reference/options.md', 'utf8').match(/\bSVC_[A-Z0-9_]+/g) ?? [];
  expect(names.length).toBeGreaterThan(10);
  expect(mistypedVariables(Object.fromEntries(names.map((name) => [name, '1'])))).toEqual([]);
});
