// The dashboard for Grafana asks only for metrics that there are, and the reference names those and no others.

import { readFileSync } from 'node:fs';
import { beforeAll, expect, it } from 'vitest';
import { closeAllAfterEach, TestProxy } from '../proxy/test-proxy.ts';
import { startTestServer } from '../server/test-server.ts';

closeAllAfterEach();

/** Not there unless an option asks for them. */
const OPTIONAL = /^svc:(kv_transfer_|spec_decode_|lora_requests_info)/;

const reference = readFileSync('docs/reference/metrics.md', 'utf8');
const dashboard = readFileSync('docs/grafana-dashboard.json', 'utf8');

/** Of a server and a proxy, without those of the process. */
let served: ReadonlySet<string>;
beforeAll(async () => {
  const server = await startTestServer();
  const proxy = await TestProxy.start();
  const texts = [server, proxy].map(async ({ url }) => (await fetch(`${url}/metrics`)).text());
  const names = (await Promise.all(texts)).join('\n').matchAll(/^# TYPE ((?:svc:|http_)\S+)/gm);
  served = new Set([...names].map(([, name = '']) => name));
  await server.close();
});

function metricsIn(text: string): string[] {
  return [...new Set(text.match(/\b(svc:|http_)[a-z0-9_]+/g))];
}

/** In the reference two names that end alike share a line: `svc:a_sent_total`, `_received_total`. */
function isDescribed(name: string): boolean {
  return (
    reference.includes(`\`${name}\``) ||
    (OPTIONAL.test(name) && reference.includes(`\`${name.replace(/^.*(_[a-z]+_[a-z]+_total)$/, '$1')}\``))
  );
}

it('the dashboard queries metrics that a server or a proxy has, or that the reference ties to an option', () => {
  const queried = metricsIn(dashboard).map((name) => name.replace(/_(bucket|sum|count)$/, ''));
  expect(queried.length).toBeGreaterThan(25);
  const unknown = queried.filter((name) => !served.has(name) && !(OPTIONAL.test(name) && isDescribed(name)));
  expect(unknown).toEqual([]);
});

it('the reference names every metric of a server and of a proxy, and no other', () => {
  expect([...served].filter((name) => !isDescribed(name))).toEqual([]);
  const told = [...reference.matchAll(/^\| `((?:svc:|http_)[a-z0-9_]+)`/gm)].map(([, name = '']) => name);
  expect(told.length).toBeGreaterThan(40);
  expect(told.filter((name) => !served.has(name) && !OPTIONAL.test(name))).toEqual([]);
});

it('the dashboard has a place of its own for each panel', () => {
  const { panels } = JSON.parse(dashboard);
  const places = panels.map(({ gridPos: { x, y } }: { gridPos: { x: number; y: number } }) => `${x} ${y}`);
  expect(new Set(places).size).toBe(panels.length);
});
