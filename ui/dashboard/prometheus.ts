// Reads the text format of Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats/), as far as the
// dashboard needs it.

interface Sample {
  readonly labels: string;
  readonly value: number;
}

/** One reading of all metrics. */
export class Reading {
  /** Seconds. */
  readonly at: number;
  readonly #samples = new Map<string, Sample[]>();

  constructor(text: string, at: number) {
    this.at = at;
    for (const [, name = '', labels = '', value] of text.matchAll(/^([\w:]+)(?:\{(.*)\})? (\S+)$/gm)) {
      const samples = this.#samples.get(name) ?? [];
      samples.push({ labels, value: Number(value) });
      this.#samples.set(name, samples);
    }
  }

  /** Of all samples of this name together; 0 where there is none. */
  sum(name: string): number {
    return (this.#samples.get(name) ?? []).reduce((sum, { value }) => sum + value, 0);
  }

  /** Of all samples of this name, such as those of several engines; 0 where there is none. */
  mean(name: string): number {
    return this.sum(name) / Math.max(1, this.#samples.get(name)?.length ?? 0);
  }

  /** Upper bounds and cumulative counts of a histogram, in rising order. */
  buckets(name: string): readonly (readonly [bound: number, count: number])[] {
    const counts = new Map<number, number>();
    for (const { labels, value } of this.#samples.get(`${name}_bucket`) ?? []) {
      const bound = /(?:^|,)le="([^"]+)"/.exec(labels)?.[1];
      if (bound === undefined) continue;
      const number = bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound);
      counts.set(number, (counts.get(number) ?? 0) + value);
    }
    return [...counts].sort(([a], [b]) => a - b);
  }
}

/** By how much a counter grew in a second. */
export function rate(before: Reading, now: Reading, name: string): number {
  return Math.max(0, now.sum(name) - before.sum(name)) / (now.at - before.at);
}

/** By how much two counters grew, as a share; null where the second one did not. */
export function share(before: Reading, now: Reading, part: string, whole: string): number | null {
  const grown = now.sum(whole) - before.sum(whole);
  return grown > 0 ? (now.sum(part) - before.sum(part)) / grown : null;
}

/** Of what a histogram observed between two readings, linear within a bucket; null where that is nothing. */
export function quantile(before: Reading, now: Reading, name: string, fraction: number): number | null {
  const earlier = new Map(before.buckets(name));
  const grown = now
    .buckets(name)
    .map(([bound, count]) => [bound, count - (earlier.get(bound) ?? 0)] as const);
  const total = grown.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const rank = fraction * total;
  const place = grown.findIndex(([, count]) => count >= rank);
  const [low, counted] = grown[place - 1] ?? [0, 0];
  const [high, count] = grown[place] ?? [low, rank];
  return Number.isFinite(high) ? low + ((high - low) * (rank - counted)) / (count - counted || 1) : low;
}
