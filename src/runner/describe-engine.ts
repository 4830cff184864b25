// What is told of a model that has been loaded: at start, over HTTP, and to other instances.

import type { EngineConfig } from '../config/engine-config.ts';
import { mostBlocks } from '../kv-cache/block-groups.ts';
import type { KvCompatibility } from '../kv-transfer/connector.ts';
import type { Model } from '../models/model.ts';
import { StagedModel } from '../models/staged-model.ts';
import type { Ops } from '../ops/ops.ts';
import type { EncoderCosts } from '../scheduler/scheduled-step.ts';
import type { EngineInfo, RankMemory } from './executor.ts';
import type { KvMemory } from './kv-memory.ts';

interface Loaded {
  readonly config: EngineConfig;
  readonly ops: Ops;
  readonly model: Model;
  readonly fingerprint: string;
  readonly maxModelLen: number;
  readonly windows: EngineInfo['windows'];
  readonly stateBlocks: number;
}

/** The model and its KV cache, and what the backend says of itself. */
export function describe(
  { config, ops, model, fingerprint, maxModelLen, windows, stateBlocks }: Loaded,
  numBlocks: number,
) {
  const { blockSize, maxNumBatchedTokens, modelPath } = config;
  const { architecture, pooling, encoder, vocabSize } = model.config;
  return {
    model: modelPath,
    architecture,
    dtype: model.dtype,
    kvDType: model.kvDType,
    weightFormat: model.weightFormat,
    backend: ops.backend,
    isOnGpu: ops.deviceMemory() !== null,
    isa: ops.isa,
    modelFingerprint: fingerprint,
    weightBytes: model.weightBytes,
    blockSize,
    numBlocks,
    windows,
    stateBlocks,
    shortContext: model.shortContext,
    maxModelLen,
    encoderCosts: encoderCosts(model),
    wholeImageTokens: model.imageEncoder?.wholeImageTokens ?? null,
    pooling,
    computesWholePrompts: encoder !== null,
    vocabSize,
    maxConcurrency:
      numBlocks / mostBlocks({ blockSize, windows, stateBlocks }, maxModelLen, maxNumBatchedTokens),
  };
}

/** By what is multiplied for each. */
function encoderCosts({ imageEncoder, weightBytes }: Model): EncoderCosts | null {
  if (imageEncoder === null) return null;
  const { numLayers, multiplied } = imageEncoder;
  const { ofPatch, ofPair } = multiplied;
  return { numLayers, ofPatch: ofPatch / weightBytes, ofPair: ofPair / weightBytes };
}

/** Each stage, and all of them in a line. */
export function describeStages(
  stages: readonly Ops[],
  model: Model,
  { bytes }: KvMemory,
): Pick<EngineInfo, 'ranks' | 'compute'> {
  const models = model instanceof StagedModel ? model.stages.map((stage) => stage.model) : [model];
  const ranks = models.map(
    ({ weightBytes }, stage): RankMemory => ({
      compute: stages[stage]!.description,
      weightBytes,
      kvCacheBytes: bytes[stage]!,
    }),
  );
  const all = ranks.map(({ compute }) => compute).join('; ');
  return { ranks, compute: stages.length === 1 ? all : `${stages.length} pipeline stages: ${all}` };
}

/** What two instances must have in common beside the layout of their KV memory. */
export function compatibilityOf({
  config,
  ops,
  model,
  fingerprint,
  maxModelLen,
  windows,
  stateBlocks,
}: Loaded): Omit<KvCompatibility, keyof KvMemory['layout']> {
  return {
    // Positions of long contexts are stretched by the longest one that is served.
    model: model.shortContext === null ? fingerprint : `${fingerprint} of ${maxModelLen} tokens`,
    isa: ops.isa,
    dtype: model.dtype,
    kvDType: model.kvDType,
    weightFormat: model.weightFormat,
    blockSize: config.blockSize,
    windows,
    stateBlocks,
  };
}
