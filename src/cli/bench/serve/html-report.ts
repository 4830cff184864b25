// A measurement of a server as one HTML file that needs nothing from elsewhere: the figures, and plots over its time.

import type { Row } from '../bench-report.ts';
import { tokensBySecond } from './serving-metrics.ts';
import type { TimedAnswer } from './timed-answer.ts';

const WIDTH = 900;
const HEIGHT = 260;
const MARGIN = 50;

interface Point {
  readonly x: number;
  readonly y: number;
}

export function htmlReport(tables: readonly (readonly Row[])[], answers: readonly TimedAnswer[]): string {
  const good = answers.filter(({ error }) => error === null);
  const points = (y: (answer: TimedAnswer) => number): Point[] =>
    good.map((answer) => ({ x: answer.sentAt, y: y(answer) }));
  const perSecond = tokensBySecond(good).map((y, x) => ({ x: x + 0.5, y }));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>svc bench serve</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td { padding: .1rem 1rem .1rem 0; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.axis { stroke: currentColor; stroke-opacity: .3; }
.mark { fill: #3584e4; fill-opacity: .7; }
.line { fill: none; stroke: #3584e4; stroke-width: 2; }
</style>
</head>
<body>
<h1>svc bench serve</h1>
${tables.map(htmlTable).join('\n')}
${plot(
  'First token, ms, by the time at which a request was sent, s',
  points(({ ttft }) => 1000 * ttft),
  'dots',
)}
${plot(
  'Whole answer, s',
  points(({ sentAt, endedAt }) => endedAt - sentAt),
  'dots',
)}
${plot('Chunks of answers a second', perSecond, 'line')}
</body>
</html>
`;
}

function htmlTable(rows: readonly Row[]): string {
  const cells = rows.map((row) => `<tr>${row.map((text) => `<td>${escaped(text)}</td>`).join('')}</tr>`);
  return `<table>${cells.join('')}</table>`;
}

function plot(title: string, points: readonly Point[], kind: 'dots' | 'line'): string {
  const most = (of: (point: Point) => number): number =>
    points.reduce((largest, point) => Math.max(largest, of(point)), 1e-9);
  const [maxX, maxY] = [most(({ x }) => x), most(({ y }) => y)];
  const place = ({ x, y }: Point): string =>
    `${(MARGIN + (x / maxX) * (WIDTH - 2 * MARGIN)).toFixed(1)},${(HEIGHT - MARGIN - (y / maxY) * (HEIGHT - 2 * MARGIN)).toFixed(1)}`;
  const marks =
    kind === 'line'
      ? `<polyline class="line" points="${points.map(place).join(' ')}"/>`
      : points.map((point) => dot(place(point))).join('');
  const bottom = HEIGHT - MARGIN;
  return `<h2>${escaped(title)}</h2>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(title)}">
<path class="axis" fill="none" d="M${MARGIN},${MARGIN} V${bottom} H${WIDTH - MARGIN}"/>
<text x="${MARGIN - 6}" y="${MARGIN}" text-anchor="end">${short(maxY)}</text>
<text x="${MARGIN - 6}" y="${bottom}" text-anchor="end">0</text>
<text x="${WIDTH - MARGIN}" y="${bottom + 18}" text-anchor="end">${short(maxX)} s</text>
${marks}
</svg>`;
}

function dot(place: string): string {
  const [x, y] = place.split(',');
  return `<circle class="mark" cx="${x}" cy="${y}" r="3"/>`;
}

function short(value: number): string {
  return value.toLocaleString('en', { maximumSignificantDigits: 3 });
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
