// Loads the model in the thread that calls, or a slice of it in each rank.

import type { EngineConfig } from '../config/engine-config.ts';
import type { Executor } from './executor.ts';
import { type LoadListeners, loadRunner } from './load-runner.ts';
import { loadRanks } from './ranks/group-executor.ts';

/** @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend. */
export function loadExecutor(config: EngineConfig, listeners: LoadListeners = {}): Promise<Executor> {
  return config.tensorParallelSize === 1 ? loadRunner(config, listeners) : loadRanks(config, listeners);
}
