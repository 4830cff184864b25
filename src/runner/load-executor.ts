// Loads the model in one piece, a slice of it in each rank, or its layers in stages.

import type { EngineConfig } from '../config/engine-config.ts';
import type { Executor } from './executor.ts';
import { type LoadListeners, loadRunner } from './load-runner.ts';
import { loadStages } from './load-stages.ts';
import { loadRanks } from './ranks/group-executor.ts';

/** @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend. */
export function loadExecutor(config: EngineConfig, listeners: LoadListeners = {}): Promise<Executor> {
  if (config.pipelineParallelSize > 1) return loadStages(config, listeners);
  return config.tensorParallelSize === 1 ? loadRunner(config, listeners) : loadRanks(config, listeners);
}
