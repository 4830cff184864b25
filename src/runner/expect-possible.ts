// What a configuration asks of a model that cannot serve it: found before a weight is read.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import type { ModelConfig } from '../models/model-config.ts';

/**
 * @throws ConfigError where a model that generates nothing is to guess tokens ahead, to hand its cache over, or to have adapters; where
 *   one with states is to guess or to hand them over; or where it cannot be in so many stages.
 */
export function expectPossible(config: EngineConfig, model: ModelConfig): void {
  if (model.pooling !== null) expectNoGeneration(config);
  if (model.recurrent !== null) expectNoStatesElsewhere(config);
  expectStages(config, model);
}

/** A state cannot go back where a guess was wrong, and is no block of a cache. */
function expectNoStatesElsewhere({ speculative, kvTransfer }: EngineConfig): void {
  const given = { 'speculative-config': speculative, 'kv-transfer-config': kvTransfer };
  const option = Object.entries(given).find(([, value]) => value !== null)?.[0];
  if (option === undefined) return;
  throw new ConfigError(
    `--${option} is not available for this model, whose layers keep a state of each sequence (linear attention): leave it out`,
    { param: option },
  );
}

function expectNoGeneration({ speculative, kvTransfer, lora }: EngineConfig): void {
  const given = { 'speculative-config': speculative, 'kv-transfer-config': kvTransfer, 'lora-modules': lora };
  const option = Object.entries(given).find(([, value]) => value !== null)?.[0];
  if (option === undefined) return;
  throw new ConfigError(
    `--${option} is for models that generate text, and this one gives embeddings or scores: leave it out`,
    { param: option },
  );
}

function expectStages({ pipelineParallelSize: numStages }: EngineConfig, { numLayers }: ModelConfig): void {
  if (numStages <= numLayers) return;
  throw new ConfigError(
    `--pipeline-parallel-size ${numStages} is more than the ${numLayers} layers of the model: use at most ${numLayers}`,
    { param: 'pipeline-parallel-size' },
  );
}
