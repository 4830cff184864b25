// What the proxy and its instances do at the moment.

import { changes, levels, timesOf } from './changes.ts';
import { useTopology } from './instances.ts';
import { Plot } from './plot.tsx';
import { rate } from './prometheus.ts';
import { quantileLine } from './server-dashboard.tsx';
import { TopologyView } from './topology-view.tsx';
import { useReadings } from './use-readings.ts';

const FIRST_BYTE = 'svc:proxy_time_to_first_byte_seconds';

export function ProxyDashboard() {
  const { all, error: readingError } = useReadings();
  const { topology, error: topologyError } = useTopology();
  const error = topologyError ?? readingError;
  const times = timesOf(all);
  const perSecond = (label: string, name: string) => ({
    label,
    values: changes(all, (before, now) => rate(before, now, name)),
  });
  return (
    <section class="dashboard" aria-label="Dashboard">
      {error !== null && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {topology !== null && <TopologyView topology={topology} />}
      <Plot
        title="Requests in flight"
        unit=""
        times={times}
        lines={[{ label: 'all', values: levels(all, (now) => now.sum('svc:proxy_requests_in_flight')) }]}
      />
      <Plot
        title="Answers a second"
        unit=""
        times={times}
        lines={[perSecond('answers', 'svc:proxy_requests_total')]}
      />
      <Plot
        title="First byte"
        unit="ms"
        times={times}
        lines={[quantileLine(all, 'p50', FIRST_BYTE, 0.5), quantileLine(all, 'p99', FIRST_BYTE, 0.99)]}
      />
      <Plot
        title="Failovers a second"
        unit=""
        times={times}
        lines={[
          perSecond('streams continued', 'svc:proxy_resumes_total'),
          perSecond('tried again', 'svc:proxy_retries_total'),
          perSecond('failures', 'svc:proxy_instance_failures_total'),
        ]}
      />
    </section>
  );
}
