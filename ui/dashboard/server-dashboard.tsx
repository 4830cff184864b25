// What one server does at the moment.

import { changes, levels, timesOf } from './changes.ts';
import { Plot } from './plot.tsx';
import { quantile, type Reading, rate, share } from './prometheus.ts';
import { useReadings } from './use-readings.ts';

export function ServerDashboard() {
  const { all, error } = useReadings();
  const times = timesOf(all);
  const level = (label: string, name: string) => ({ label, values: levels(all, (now) => now.sum(name)) });
  const perSecond = (label: string, name: string) => ({
    label,
    values: changes(all, (before, now) => rate(before, now, name)),
  });
  const milliseconds = (name: string) => [
    quantileLine(all, 'p50', name, 0.5),
    quantileLine(all, 'p99', name, 0.99),
  ];
  return (
    <section class="dashboard" aria-label="Dashboard">
      {error !== null && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      <Plot
        title="Requests"
        unit=""
        times={times}
        lines={[level('running', 'svc:num_requests_running'), level('waiting', 'svc:num_requests_waiting')]}
      />
      <Plot
        title="Tokens a second"
        unit=""
        times={times}
        lines={[
          perSecond('answers', 'svc:generation_tokens_total'),
          perSecond('prompts', 'svc:prompt_tokens_total'),
        ]}
      />
      <Plot
        title="First token"
        unit="ms"
        times={times}
        lines={milliseconds('svc:time_to_first_token_seconds')}
      />
      <Plot
        title="Between tokens"
        unit="ms"
        times={times}
        lines={milliseconds('svc:inter_token_latency_seconds')}
      />
      <Plot
        title="KV blocks in use"
        unit="%"
        times={times}
        lines={[{ label: 'used', values: levels(all, (now) => 100 * now.mean('svc:kv_cache_usage_perc')) }]}
      />
      <Plot
        title="Prompt tokens from the prefix cache"
        unit="%"
        times={times}
        lines={[{ label: 'hits', values: changes(all, cacheHits) }]}
      />
    </section>
  );
}

function cacheHits(before: Reading, now: Reading): number | null {
  const hits = share(before, now, 'svc:prefix_cache_hits_total', 'svc:prefix_cache_queries_total');
  return hits === null ? null : 100 * hits;
}

export function quantileLine(readings: readonly Reading[], label: string, name: string, fraction: number) {
  const value = (before: Reading, now: Reading) => {
    const seconds = quantile(before, now, name, fraction);
    return seconds === null ? null : 1000 * seconds;
  };
  return { label, values: changes(readings, value) };
}
