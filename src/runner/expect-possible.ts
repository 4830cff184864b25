// What a configuration asks of a model that cannot serve it: found before a weight is read.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import type { ImageProcessor } from '../images/image-processor.ts';
import { allLayers, divideLayers, type LayerRange } from '../models/layer-range.ts';
import type { ModelConfig } from '../models/model-config.ts';
import { ofKind } from '../models/recurrent-layers.ts';
import { wholeImageTokensOf } from '../models/vision/whole-image-tokens.ts';

/**
 * @throws ConfigError where a model that generates nothing is to guess tokens ahead, to hand its cache over, or to have adapters; where
 *   one with states is to guess; where a stage has no blocks to hand its states over in, or rows of another length than the others; where it
 *   cannot be in so many stages; or where steps have no room for an image that one of them computes whole.
 * @param images what reads them; null where prompts have none
 */
export function expectPossible(
  config: EngineConfig,
  model: ModelConfig,
  images: Pick<ImageProcessor, 'mostPatches'> | null,
): void {
  if (model.pooling !== null) expectNoGeneration(config);
  expectStages(config, model);
  if (config.kvTransfer !== null) expectTransfer(config, model);
  if (model.recurrent !== null && config.speculative !== null) refuseGuesses();
  const imageTokens = images && model.vision && wholeImageTokensOf(model.vision, images.mostPatches);
  if (imageTokens !== null) expectRoomFor(imageTokens, config);
}

/** An image waits for nobody where it fits into a step beside a token of each other sequence. */
function expectRoomFor(imageTokens: number, { maxNumBatchedTokens, maxNumSeqs }: EngineConfig): void {
  const least = imageTokens + maxNumSeqs - 1;
  if (maxNumBatchedTokens >= least) return;
  const fewer = maxNumBatchedTokens - imageTokens + 1;
  const orFewer = fewer > 0 ? `, lower --max-num-seqs to ${fewer}` : '';
  throw new ConfigError(
    `--max-num-batched-tokens ${maxNumBatchedTokens} is too few with --max-num-seqs ${maxNumSeqs}: this model computes the ${imageTokens} ` +
      `tokens of an image in one step, beside a token of each other sequence; raise it to ${least}${orFewer}, or leave images out with ` +
      `--limit-mm-per-prompt '{"image": 0}'`,
    { param: 'max-num-batched-tokens' },
  );
}

/** A state cannot go back where a guess was wrong. */
function refuseGuesses(): never {
  throw new ConfigError(
    '--speculative-config is not available for this model, whose layers keep a state of each sequence (linear attention): leave it out',
    { param: 'speculative-config' },
  );
}

function expectTransfer(config: EngineConfig, model: ModelConfig): void {
  if (model.recurrent !== null) expectBlocksInStages(config, model);
  if (model.layerHeads !== null) expectEqualRows(config, model);
}

/** States go to other instances in blocks, whose rows are those of layers of attention. */
function expectBlocksInStages({ pipelineParallelSize: numStages }: EngineConfig, model: ModelConfig): void {
  const withoutBlocks = divideLayers(model, numStages).find((layers) => {
    const { first, end } = ofKind(model, layers, false);
    return first === end;
  });
  if (withoutBlocks === undefined) return;
  refuseStages(
    numStages,
    withoutBlocks,
    'none of which is one of attention: with --kv-transfer-config each stage needs one, in whose blocks the states of its layers go',
  );
}

/** Rows are sent as they are, and are as long in all stages where each has layers with all heads. */
function expectEqualRows({ pipelineParallelSize: numStages }: EngineConfig, model: ModelConfig): void {
  const kindsIn = ({ first, end }: LayerRange): number => {
    const heads = model.layerHeads?.slice(first, end) ?? [];
    return new Set(heads.map(({ kvHeads, headDim }) => `${kvHeads} of ${headDim}`)).size;
  };
  const numKinds = kindsIn(allLayers(model));
  const withFewer = divideLayers(model, numStages).find((layers) => kindsIn(layers) < numKinds);
  if (withFewer === undefined) return;
  refuseStages(
    numStages,
    withFewer,
    'which have the same heads of keys and values: with --kv-transfer-config each stage needs layers with each of the heads of this model',
  );
}

function refuseStages(numStages: number, { first, end }: LayerRange, why: string): never {
  throw new ConfigError(
    `--pipeline-parallel-size ${numStages} has a stage of the layers ${first} to ${end - 1}, ${why}; use fewer stages`,
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
  { numLayers, sharedKeys, layerInputs }: ModelConfig,
): void {
  if (numStages > 1 && (sharedKeys !== null || layerInputs !== null)) {
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
