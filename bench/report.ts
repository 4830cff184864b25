// What a benchmark prints: a table of figures, each beside the limit of this machine that it is held against.

export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** What would be possible at best, in the same unit; null where there is no such limit. */
  readonly limit: number | null;
  /** What is to be reached; null where the figure is only watched. */
  readonly goal: string | null;
}

export interface Section {
  readonly title: string;
  readonly figures: readonly Figure[];
  readonly notes?: readonly string[];
}

/** A figure that is held against no limit of the machine. */
export function figureOf(name: string, value: number, unit: string, goal: string | null = null): Figure {
  return { name, value, unit, limit: null, goal };
}

/** A section as a Markdown table. */
export function formatSection({ title, figures, notes = [] }: Section): string {
  const rows = figures.map(({ name, value, unit, limit, goal }) => {
    const ratio = limit === null ? '' : `${((100 * value) / limit).toFixed(0)} %`;
    return `| ${name} | ${formatNumber(value)} ${unit} | ${limit === null ? '' : `${formatNumber(limit)} ${unit}`} | ${ratio} | ${goal ?? ''} |`;
  });
  const head = ['| figure | measured | limit of this machine | ratio | goal |', '|---|---:|---:|---:|---|'];
  return [`## ${title}`, '', ...head, ...rows, '', ...notes.flatMap((note) => [note, ''])].join('\n');
}

/** Of an even number of values, between the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

/** With three digits, where it has a fraction. */
export function formatNumber(value: number): string {
  if (Number.isInteger(value)) return String(value);
  if (Math.abs(value) < 1e-3) return value.toExponential(1);
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
