// Metrics of the process and of Node. There is one process, however many servers it has: they share this registry.

import { collectDefaultMetrics, Registry } from 'prom-client';

let registry: Registry | null = null;

export function processMetrics(): Registry {
  if (registry === null) {
    registry = new Registry();
    collectDefaultMetrics({ register: registry });
  }
  return registry;
}
