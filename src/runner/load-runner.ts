// Loads the model, chooses the size of its KV memory and takes it.

import type { EngineConfig } from '../config/engine-config.ts';
import type { KvCompatibility } from '../kv-transfer/connector.ts';
import { loadModel } from '../models/load-model.ts';
import type { ModelShape } from '../models/model.ts';
import { openModelSource } from '../models/source/model-source.ts';
import { PackedCache } from '../models/weights/packed-cache.ts';
import type { Ops } from '../ops/ops.ts';
import { selectOps } from '../ops/select.ts';
import type { EngineInfo } from './executor.ts';
import { chooseNumBlocks } from './kv-budget.ts';
import { ModelRunner } from './model-runner.ts';

export interface LoadListeners {
  readonly onProgress?: (fraction: number, what: string) => void;
  /** Gets what a person should know though the model loads. */
  readonly onWarning?: (message: string) => void;
}

/** @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend. */
export async function loadRunner(
  config: EngineConfig,
  { onProgress = () => {}, onWarning = () => {} }: LoadListeners = {},
): Promise<ModelRunner> {
  const { ops, reason, warning } = selectOps(config);
  if (warning !== null) onWarning(warning);
  const { dtype, quantization, maxModelLen: wantedLength, blockSize, modelPath } = config;
  const lengthOf = (model: ModelShape): number => wantedLength ?? model.config.maxPositionEmbeddings;
  const blocksFor = (model: ModelShape): number =>
    chooseNumBlocks(config, model.kvCacheShape(1, blockSize), lengthOf(model), ops.freeMemory());
  // What does not fit now will not fit beside the weights.
  const onOpen = (model: ModelShape): void => void blocksFor(model);
  const packedCache = openPackedCache(config, ops, onWarning);
  const options = {
    dtype,
    quantization,
    packedCache,
    maxModelLen: wantedLength,
    onOpen,
    onWarning,
    onProgress,
  };
  const source = openModelSource(modelPath);
  const model = await loadModel(source, ops, options);
  const maxModelLen = lengthOf(model);
  const numBlocks = blocksFor(model);
  const isShared = config.kvTransfer !== null;
  const cache = ops.makeKvCache(model.kvCacheShape(numBlocks, blockSize), isShared);
  const saves = isShared ? ops.openKvSaveNotifier(cache) : null;
  const fingerprint = source.fingerprint();
  const kvCompatibility: KvCompatibility = {
    model: fingerprint,
    isa: ops.isa,
    dtype: model.dtype,
    weightFormat: model.weightFormat,
    blockSize,
    layers: model.config.numLayers,
    layerBlockBytes: cache.layerBlockBytes,
  };
  const info: EngineInfo = {
    model: modelPath,
    architecture: model.config.architecture,
    dtype: model.dtype,
    weightFormat: model.weightFormat,
    backend: ops.backend,
    isa: ops.isa,
    modelFingerprint: fingerprint,
    compute: ops.description,
    backendReason: reason,
    weightBytes: model.weightBytes,
    isFromPackedCache: packedCache?.hasAllWeights ?? false,
    blockSize,
    numBlocks,
    maxModelLen,
    vocabSize: model.config.vocabSize,
    maxConcurrency: (numBlocks * blockSize) / maxModelLen,
    kvCompatibility: isShared ? kvCompatibility : null,
  };
  void packedCache?.keep();
  return new ModelRunner(info, ops, model, { cache, saves });
}

/** Null where none is configured, or the backend packs nothing. */
function openPackedCache(
  { packedCache: folder, packedCacheSize: maxBytes }: EngineConfig,
  { packedWeights, backend }: Ops,
  onWarning: (message: string) => void,
): PackedCache | null {
  if (folder === null) return null;
  if (packedWeights !== null) return new PackedCache({ folder, maxBytes }, packedWeights, onWarning);
  onWarning(`--packed-cache has no effect: the ${backend} backend does not pack weights`);
  return null;
}
