// Tells the proxy of disaggregated serving that this instance is there and how busy it is. `svc serve` calls it once the
// server answers.

import type { InstanceLoad } from '../cluster/discovery-message.ts';
import type { Registration } from '../cluster/registration.ts';
import type { KvTransferConfig } from '../config/kv-transfer-config.ts';
import type { InferenceEngine } from '../engine/inference-engine.ts';

/** Null where the configuration names no proxy. */
export async function joinProxy(
  config: KvTransferConfig | null,
  engine: InferenceEngine,
  model: string,
  warn: (message: string) => void,
): Promise<Registration | null> {
  if (config === null || config.proxy === null) return null;
  const { Registration: Registrations } = await import('../cluster/registration.ts');
  return Registrations.start(config, { model, load: loadOf(engine), warn });
}

/** A heartbeat does not wait for the engine: it tells what was true at the one before. */
function loadOf(engine: InferenceEngine): () => InstanceLoad | null {
  let load: InstanceLoad | null = null;
  const refresh = async (): Promise<void> => {
    const { running, waiting, loading, freeBlocks, numBlocks } = await engine.stats();
    load = { running, waiting: waiting + loading, free_blocks: freeBlocks, num_blocks: numBlocks };
  };
  return () => {
    // A dead engine ends the process by itself.
    if (engine.isAlive) void refresh().catch(() => {});
    return load;
  };
}
