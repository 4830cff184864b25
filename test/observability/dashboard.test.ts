// The dashboard for Grafana asks only for metrics that there are.

import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

it('the dashboard queries metrics that the reference names', () => {
  const dashboard = readFileSync('docs/grafana-dashboard.json', 'utf8');
  const reference = readFileSync('docs/reference/metrics.md', 'utf8');
  const queried = new Set(dashboard.match(/svc:[a-z0-9_]+/g));
  expect(queried.size).toBeGreaterThan(20);
  const named = [...queried].map((name) => name.replace(/_(bucket|sum|count)$/, ''));
  const unknown = named.filter(
    (name) =>
      !reference.includes(`\`${name}\``) &&
      !reference.includes(`\`${name.replace(/^.*(_[a-z]+_[a-z]+_total)$/, '$1')}\``),
  );
  expect(unknown).toEqual([]);
});

it('the dashboard has a place of its own for each panel', () => {
  const { panels } = JSON.parse(readFileSync('docs/grafana-dashboard.json', 'utf8'));
  const places = panels.map(({ gridPos: { x, y } }: { gridPos: { x: number; y: number } }) => `${x} ${y}`);
  expect(new Set(places).size).toBe(panels.length);
});
