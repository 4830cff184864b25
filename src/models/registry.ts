// From a model folder to a loaded model: picks the architecture's layer and reads its weights. The runner calls it.

import { statSync } from 'node:fs';
import type { DTypeOption } from '../config/engine-config.ts';
import { ConfigError, ModelLoadError } from '../errors.ts';
import type { ComputeDType } from '../ops/dtype.ts';
import type { Ops } from '../ops/ops.ts';
import { Decoder, kvCacheShape } from './decoder.ts';
import { ropeTable } from './layers/rope.ts';
import type { Layer } from './layers/step.ts';
import { llamaLayer } from './llama.ts';
import { mistralLayer } from './mistral.ts';
import type { Model, ModelShape } from './model.ts';
import { type Architecture, type ModelConfig, readModelConfig } from './model-config.ts';
import { qwen2Layer } from './qwen2.ts';
import { qwen3Layer } from './qwen3.ts';
import { Checkpoint } from './weights/checkpoint.ts';
import { expectNoMoreLayers, judgeUnused } from './weights/unused-tensors.ts';
import { WeightReader } from './weights/weight-reader.ts';

type LoadLayer = (weights: WeightReader, config: ModelConfig, layer: number) => Layer;

const LAYERS: Readonly<Record<Architecture, LoadLayer>> = {
  LlamaForCausalLM: llamaLayer,
  MistralForCausalLM: mistralLayer,
  Qwen2ForCausalLM: qwen2Layer,
  Qwen3ForCausalLM: qwen3Layer,
};

export interface LoadOptions {
  readonly dtype: DTypeOption;
  /** Longest context to serve; null is the model's own limit. */
  readonly maxModelLen: number | null;
  /** Called before a weight is read; what it throws ends the load. */
  readonly onOpen?: (model: ModelShape) => void;
  /** Gets what a person should know of a model that can be served all the same. */
  readonly onWarning?: (message: string) => void;
  /** Called with a rising share of the work and the name of what was just read. */
  readonly onProgress?: (fraction: number, what: string) => void;
}

/** The table of rotary angles is one array over all positions; no published model reaches beyond 10 million. */
const MAX_LENGTH = 10_000_000;

/**
 * Loads the model in `folder` into the memory of `ops`.
 * @throws ModelLoadError naming the file, the tensor and what was expected; ConfigError for a context that is
 *   longer than the model's.
 */
export async function loadModel(folder: string, ops: Ops, options: LoadOptions): Promise<Model> {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ModelLoadError(
      `${folder} is no folder; name a folder that holds config.json and *.safetensors`,
    );
  }
  const config = readModelConfig(folder);
  const length = checkLength(config, options.maxModelLen);
  const checkpoint = new Checkpoint(folder);
  expectNoMoreLayers(checkpoint, config);
  const dtype = chooseDType(config, checkpoint, options.dtype);
  options.onOpen?.({
    config,
    dtype,
    kvCacheShape: (blocks, size) => kvCacheShape(config, dtype, blocks, size),
  });
  const weights = new WeightReader(checkpoint, ops, dtype);
  const { vocabSize, hiddenSize, numLayers } = config;

  const done = async (steps: number, what: string) => {
    options.onProgress?.(steps / (numLayers + 2), what);
    // A turn for whoever shows the progress.
    await new Promise(setImmediate);
  };
  const table = { name: 'model.embed_tokens', n: vocabSize };
  const isTied = config.tieWordEmbeddings;
  const embedding = isTied ? weights.linear([table], hiddenSize) : weights.embedding(table, hiddenSize);
  await done(1, 'embeddings');
  const layers: Layer[] = [];
  for (let layer = 0; layer < numLayers; layer++) {
    layers.push(LAYERS[config.architecture](weights, config, layer));
    await done(layer + 2, `layer ${layer + 1} of ${numLayers}`);
  }
  const finalNorm = weights.vector('model.norm.weight', hiddenSize);
  const head = isTied ? embedding : weights.linear([{ name: 'lm_head', n: vocabSize }], hiddenSize);
  const angles = ops.makeVector(ropeTable(config.rope, config.rotaryDim, length));
  await done(numLayers + 2, 'output head');
  checkpoint.expectUnchanged();
  const unused = judgeUnused(checkpoint, config);
  if (unused !== null) options.onWarning?.(unused);
  return new Decoder(config, ops, { embedding, layers, finalNorm, head, ropeTable: angles }, weights);
}

function checkLength({ maxPositionEmbeddings }: ModelConfig, wanted: number | null): number {
  if (wanted !== null && wanted > maxPositionEmbeddings) {
    throw new ConfigError(
      `--max-model-len ${wanted} is longer than the model's own limit of ${maxPositionEmbeddings} tokens ` +
        '(max_position_embeddings in config.json); lower it or leave it out',
      { param: 'max-model-len' },
    );
  }
  const length = wanted ?? maxPositionEmbeddings;
  if (length > MAX_LENGTH) {
    throw new ConfigError(
      `a context of ${length} tokens (max_position_embeddings in config.json) is more than svc can hold: ` +
        `give --max-model-len, at most ${MAX_LENGTH}`,
      { param: 'max-model-len' },
    );
  }
  return length;
}

/** `auto` is the published format; f16 has a smaller range than bf16 and is computed in bf16. */
function chooseDType(config: ModelConfig, checkpoint: Checkpoint, option: DTypeOption): ComputeDType {
  if (option !== 'auto') return option === 'float32' ? 'f32' : 'bf16';
  const { vocabSize, hiddenSize, checkpointDType } = config;
  const published =
    checkpointDType ?? checkpoint.find('model.embed_tokens.weight', [vocabSize, hiddenSize]).dtype;
  return published === 'f32' ? 'f32' : 'bf16';
}
