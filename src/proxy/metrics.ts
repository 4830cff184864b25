// What the proxy counts: one registry per proxy.

import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Instance } from './instance.ts';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Which of the two instances of a request is asked; the label `leg`. */
export type Phase = (typeof PHASES)[number];
const PHASES = ['prefill', 'decode'] as const;
/** What became of telling an instance to forget a transfer. */
const CANCEL_OUTCOMES = ['told', 'failed', 'dropped'] as const;

export class ProxyMetrics {
  readonly registry = new Registry();
  readonly requests = this.#counter(
    'requests',
    'Answers by status, errors within streams by theirs; 499: the client left',
    ['status'],
  );
  readonly upstream = this.#counter('instance_requests', 'Requests to instances', ['instance', 'leg']);
  readonly failures = this.#counter('instance_failures', 'Requests to instances that failed', ['instance']);
  readonly retries = this.#counter('retries', 'Requests tried again on another instance', ['leg']);
  readonly resumes = this.#counter('resumes', 'Streams continued on another instance');
  readonly prefillSkips = this.#counter('prefill_skipped', 'Requests that went to a decode instance alone');
  readonly cancels = this.#counter('cancels', 'Transfers that instances were told to forget', ['outcome']);
  readonly refusedRegistrations = this.#counter(
    'registrations_refused',
    'Registrations that could not be used',
  );
  readonly firstByte = this.#histogram('time_to_first_byte_seconds', 'From a request to its first byte');
  readonly phaseTimes = this.#histogram('leg_seconds', 'Prefill: whole; decode: until its head', ['leg']);

  constructor(numInFlight: () => number, instances: () => readonly Instance[]) {
    // What has not happened yet is counted from 0, so that the first time is seen.
    for (const leg of PHASES) this.retries.inc({ leg }, 0);
    for (const outcome of CANCEL_OUTCOMES) this.cancels.inc({ outcome }, 0);
    for (const leg of PHASES) this.phaseTimes.zero({ leg });
    this.#gauge('requests_in_flight', 'Requests under way', [], (gauge) => gauge.set(numInFlight()));
    this.#gauge('instances', 'Instances by state', ['type', 'state'], (gauge) => {
      gauge.reset();
      for (const { type, state } of instances()) gauge.inc({ type, state });
    });
    this.#gauge('instance_requests_in_flight', 'Requests under way to an instance', ['instance'], (gauge) => {
      gauge.reset();
      for (const { httpAddress, openRequests, state } of instances()) {
        if (state !== 'gone') gauge.set({ instance: httpAddress }, openRequests.size);
      }
    });
  }

  /** Counters of an instance that has left are not kept for ever. */
  forget({ httpAddress: instance }: Instance): void {
    this.failures.remove({ instance });
    for (const leg of ['prefill', 'decode'] as const) this.upstream.remove({ instance, leg });
  }

  #counter<L extends string>(name: string, help: string, labelNames: L[] = []): Counter<L> {
    return new Counter({ name: `svc:proxy_${name}_total`, help, labelNames, registers: [this.registry] });
  }

  #histogram<L extends string>(name: string, help: string, labelNames: L[] = []): Histogram<L> {
    const about = { name: `svc:proxy_${name}`, help, labelNames, buckets: SECONDS };
    return new Histogram({ ...about, registers: [this.registry] });
  }

  #gauge<L extends string>(
    name: string,
    help: string,
    labelNames: L[],
    collect: (gauge: Gauge<L>) => void,
  ): void {
    new Gauge<L>({
      name: `svc:proxy_${name}`,
      help,
      labelNames,
      registers: [this.registry],
      collect() {
        collect(this);
      },
    });
  }
}
