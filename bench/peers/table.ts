// Figures of both engines side by side, as a Markdown table.

import { formatNumber, median } from '../report.ts';
import type { Metric } from './scenarios.ts';
import type { Scheme } from './schemes.ts';

export interface ComparedMetric extends Metric {
  /** A value a round. */
  readonly svc: readonly number[];
  readonly peer: readonly number[];
}

export function formatComparison(
  { name: scheme, peerName }: Scheme,
  metrics: readonly ComparedMetric[],
  notes: readonly string[],
): string {
  const peer = `node-llama-cpp ${peerName}`;
  return [
    `## svc and node-llama-cpp, ${scheme}`,
    '',
    `| | svc ${scheme} | ${peer} | times as good | goal |`,
    '|---|---:|---:|---:|---|',
    ...metrics.map((metric) => row(metric, scheme)),
    '',
    ...notes.flatMap((note) => [note, '']),
  ].join('\n');
}

function row({ name, unit, isMoreBetter, goals, svc, peer }: ComparedMetric, scheme: string): string {
  const best = (values: readonly number[]): number =>
    isMoreBetter ? Math.max(...values) : Math.min(...values);
  const show = (values: readonly number[]): string => {
    const rest = values.length > 1 ? ` (${formatNumber(median(values))})` : '';
    return `${formatNumber(best(values))}${rest} ${unit}`;
  };
  const times = (of: (values: readonly number[]) => number): number =>
    isMoreBetter ? of(svc) / of(peer) : of(peer) / of(svc);
  const ratio =
    svc.length > 1 ? `${times(best).toFixed(2)} (${times(median).toFixed(2)})` : times(best).toFixed(2);
  return `| ${name} | ${show(svc)} | ${show(peer)} | ${ratio} | ${goals?.[scheme] ?? ''} |`;
}
