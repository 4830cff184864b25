// What a configuration asks of a model that cannot serve it: found before a weight is read.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError, NotAvailableError } from '../errors.ts';
import { divideLayers } from '../models/layer-range.ts';
import type { ModelConfig } from '../models/model-config.ts';
import { ofKind } from '../models/recurrent-layers.ts';
import type { Ops } from '../ops/ops.ts';

/**
 * @throws ConfigError where a model that generates nothing is to guess tokens ahead, to hand its cache over, or to have adapters; where
 *   one with states is to guess, or a stage of it has no blocks to hand them over in; where layers of other sizes are to be handed over; or
 *   where it cannot be in so many stages.
 */
export function expectPossible(config: EngineConfig, model: ModelConfig): void {
  if (model.pooling !== null) expectNoGeneration(config);
  if (model.layerHeads !== null) expectNoTransfer(config);
  expectStages(config, model);
  if (model.recurrent === null) return;
  if (config.speculative !== null) refuseGuesses();
  if (config.kvTransfer !== null) expectBlocksInStages(config, model);
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

/** A state cannot go back where a guess was wrong. */
function refuseGuesses(): never {
  throw new ConfigError(
    '--speculative-config is not available for this model, whose layers keep a state of each sequence (linear attention): leave it out',
    { param: 'speculative-config' },
  );
}

/** States go to other instances in blocks, whose rows are those of layers of attention. */
function expectBlocksInStages({ pipelineParallelSize: numStages }: EngineConfig, model: ModelConfig): void {
  const withoutBlocks = divideLayers(model, numStages).find((layers) => {
    const { first, end } = ofKind(model, layers, false);
    return first === end;
  });
  if (withoutBlocks === undefined) return;
  const { first, end } = withoutBlocks;
  throw new ConfigError(
    `--pipeline-parallel-size ${numStages} has a stage of the layers ${first} to ${end - 1}, none of which is one of attention: with ` +
      '--kv-transfer-config each stage needs one, in whose blocks the states of its layers go; use fewer stages',
    { param: 'pipeline-parallel-size' },
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
