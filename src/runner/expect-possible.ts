// What a configuration asks of a model that cannot serve it: found before a weight is read.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError, NotAvailableError } from '../errors.ts';
import type { ModelConfig } from '../models/model-config.ts';
import type { Ops } from '../ops/ops.ts';

/**
 * @throws ConfigError where a model that generates nothing is to guess tokens ahead, to hand its cache over, or to have adapters; where
 *   one with states is to guess or to hand them over; where blocks are not of one size; or where it cannot be in so many stages.
 */
export function expectPossible(config: EngineConfig, model: ModelConfig): void {
  if (model.pooling !== null) expectNoGeneration(config);
  if (model.recurrent !== null) expectNoStatesElsewhere(config);
  if (model.layerHeads !== null) expectNoTransfer(config);
  expectStages(config, model);
}

/** @throws NotAvailableError where a model cannot be computed on this kind of device: found before its weights are read. */
export function expectServedOn(backend: Ops['backend'], { layerHeads }: ModelConfig): void {
  if (backend !== 'cuda' || layerHeads === null) return;
  throw new NotAvailableError(
    'models whose layers differ in their heads of keys and values (Gemma 4) are not available yet with --device cuda: use --device cpu',
  );
}

/** What is sent is a layer of a block, as large as every other. */
function expectNoTransfer({ kvTransfer }: EngineConfig): void {
  if (kvTransfer === null) return;
  throw new ConfigError(
    '--kv-transfer-config is not available yet for this model, whose layers differ in their heads of keys and values: leave it out',
    { param: 'kv-transfer-config' },
  );
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

function expectStages(
  { pipelineParallelSize: numStages }: EngineConfig,
  { numLayers, sharedKeys, layerInputWidth }: ModelConfig,
): void {
  if (numStages > 1 && (sharedKeys !== null || layerInputWidth !== null)) {
    throw new ConfigError(
      `--pipeline-parallel-size ${numStages} is not available for this model, whose layers see keys of earlier ones or embeddings of their ` +
        'own, which a stage would not have: leave it out',
      { param: 'pipeline-parallel-size' },
    );
  }
  if (numStages <= numLayers) return;
  throw new ConfigError(
    `--pipeline-parallel-size ${numStages} is more than the ${numLayers} layers of the model: use at most ${numLayers}`,
    { param: 'pipeline-parallel-size' },
  );
}
