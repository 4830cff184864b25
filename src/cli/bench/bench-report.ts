// What a measurement prints: a table for people, JSON for programs, both with what was measured on which machine.

import os from 'node:os';
import type { EngineInfo } from '../../engine/inference-engine.ts';
import { writeOutput } from './output-file.ts';
import { PERCENTILES, type Summary } from './statistics.ts';

export type Row = readonly [name: string, ...values: readonly string[]];

export interface BenchReport {
  /** Groups of rows, with an empty line between them. */
  readonly tables: readonly (readonly Row[])[];
  readonly json: Readonly<Record<string, unknown>>;
}

/** @throws ConfigError where the file cannot be written. */
export async function printReport(
  { tables, json }: BenchReport,
  info: EngineInfo,
  outputJson: string | undefined,
): Promise<void> {
  const table = [aboutTable(info), ...tables].map(formatTable).join('\n');
  await printFigures(table, { ...aboutJson(info), ...json }, outputJson);
}

/**
 * The table on stdout, and the figures in the file `outputJson`; where that is `-`, only the figures, on stdout.
 * @throws ConfigError where the file cannot be written.
 */
export async function printFigures(
  table: string,
  figures: object,
  outputJson: string | undefined,
): Promise<void> {
  const text = `${JSON.stringify(figures, null, 2)}\n`;
  process.stdout.write(outputJson === '-' ? text : table);
  if (outputJson === undefined || outputJson === '-') return;
  await writeOutput('output-json', outputJson, text);
}

function aboutJson({
  model,
  dtype,
  weightFormat,
  isa,
  compute,
  weightBytes,
}: EngineInfo): Record<string, unknown> {
  return {
    model,
    dtype,
    weight_format: weightFormat,
    processor: processor(),
    isa,
    compute,
    weight_bytes: weightBytes,
    peak_memory_bytes: peakMemoryBytes(),
  };
}

function aboutTable({ model, dtype, weightFormat, compute, weightBytes }: EngineInfo): Row[] {
  return [
    ['model', model],
    ['dtype', weightFormat === dtype ? dtype : `${dtype}, weights in ${weightFormat}`],
    ['processor', `${processor()}: ${compute}`],
    ['memory', `${megabytes(peakMemoryBytes())} at most, weights ${megabytes(weightBytes)}`],
  ];
}

function processor(): string {
  return os.cpus()[0]?.model.trim() ?? 'unknown';
}

/** Most that the process had at a time. */
function peakMemoryBytes(): number {
  return process.resourceUsage().maxRSS * 1024;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}

/** Rows of times, one a percentile, with a column for each summary. */
export function timeRows(columns: Readonly<Record<string, Summary>>): Row[] {
  const summaries = Object.values(columns);
  return [
    ['', ...Object.keys(columns)],
    ['mean', ...summaries.map(({ mean }) => milliseconds(mean))],
    ...PERCENTILES.map(
      (percent): Row => [
        `p${percent}`,
        ...summaries.map(({ percentiles }) => milliseconds(percentiles[percent])),
      ],
    ),
  ];
}

function milliseconds(seconds: number): string {
  return `${(1000 * seconds).toFixed(seconds < 0.1 ? 2 : 1)} ms`;
}

/** Texts begin side by side; numbers, where there are several in a row, end so. */
export function formatTable(rows: readonly Row[]): string {
  const numColumns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: numColumns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const isText = rows.every((row) => row.length <= 2);
  const line = ([name, ...values]: Row): string =>
    [
      name.padEnd(widths[0]!),
      ...values.map((value, i) => (isText ? value : value.padStart(widths[i + 1]!))),
    ].join('  ');
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('');
}
