// The configuration of an engine for which nobody has given an option; tests add a model and what they are about.

import type { EngineConfig } from '../../src/config/engine-config.ts';
import { engineConfig, mergeOptions } from '../../src/config/merge.ts';

export const ENGINE_DEFAULTS: EngineConfig = engineConfig('', mergeOptions());
