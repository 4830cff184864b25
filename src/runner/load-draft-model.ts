// Loads the draft model of --speculative-config beside the model that it guesses for, and takes its KV memory.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import { type LoadOptions, loadModel } from '../models/load-model.ts';
import { readModelConfig } from '../models/registry.ts';
import { type ModelSource, openModelSource } from '../models/source/model-source.ts';
import type { Ops } from '../ops/ops.ts';
import { DraftModel } from './draft-model.ts';
import { cacheMemory, kvBlockBytes } from './kv-budget.ts';

/** Its KV memory holds one sequence of the longest length at least, so many at most, and takes no more than this share in between. */
const MAX_SEQUENCES = 8;
const KV_SHARE = 0.1;
const GENERATING = { runner: 'generate', convert: 'auto' } as const;

interface LoadedDraft {
  readonly draftModel: DraftModel;
  /** Of its KV memory. */
  readonly kvBytes: number;
  readonly weightBytes: number;
}

/**
 * Where the draft model is loaded from; null where none is configured.
 * @param target the model that it is to guess for
 * @throws ConfigError where the two do not have the same vocabulary; ModelLoadError where it cannot be read.
 */
export function openDraftSource(
  { speculative }: Pick<EngineConfig, 'speculative'>,
  target: ModelSource,
): ModelSource | null {
  if (speculative?.method !== 'draft_model') return null;
  const source = openModelSource(speculative.model);
  const { vocabSize: own, recurrent } = readModelConfig(source, GENERATING);
  if (recurrent !== null) {
    throw new ConfigError(
      `--speculative-config: model: layers of ${speculative.model} keep a state of each sequence (linear attention), which cannot go ` +
        'back where a guess was wrong: give a draft model without',
      { param: 'speculative-config' },
    );
  }
  const wanted = readModelConfig(target, GENERATING).vocabSize;
  if (own === wanted) return source;
  throw new ConfigError(
    `--speculative-config: model: ${speculative.model} has a vocabulary of ${own} tokens, ${target.path} one of ${wanted}: ` +
      'a draft model needs the same; give a smaller model of the same family',
    { param: 'speculative-config' },
  );
}

/** @param maxModelLen longest sequence that is served; what the draft model cannot read of it gets no drafts */
export async function loadDraftModel(
  source: ModelSource,
  ops: Ops,
  config: EngineConfig,
  maxModelLen: number,
  { onProgress, onWarning }: Pick<LoadOptions, 'onProgress' | 'onWarning'>,
): Promise<LoadedDraft> {
  const { maxPositionEmbeddings, quantization: published } = readModelConfig(source, GENERATING);
  const maxLength = Math.min(maxModelLen, maxPositionEmbeddings);
  const model = await loadModel(source, ops, {
    dtype: published === null ? config.dtype : 'auto',
    quantization: published === null ? config.quantization : null,
    maxModelLen: maxLength,
    choice: GENERATING,
    // It guesses from text alone: what it knows of images would be kept a second time.
    seesImages: false,
    onProgress: (fraction, what) => onProgress?.(fraction, `draft model: ${what}`),
    ...(onWarning && { onWarning }),
  });
  const { blockSize } = config;
  const blockBytes = kvBlockBytes(model.kvCacheShape({ blocks: 1, blockSize, sequences: 1 }));
  const budget = Math.max(0, cacheMemory(config, ops).bytes);
  const perSequence = Math.ceil(maxLength / blockSize);
  const most = perSequence * Math.min(MAX_SEQUENCES, config.maxNumSeqs);
  const numBlocks = Math.max(perSequence, Math.min(most, Math.floor((budget * KV_SHARE) / blockBytes)));
  const cache = ops.makeKvCache(model.kvCacheShape({ blocks: numBlocks, blockSize, sequences: 1 }), false);
  const limits = { maxLength, maxBatchedTokens: config.maxNumBatchedTokens };
  return {
    draftModel: new DraftModel(ops, model, cache, limits),
    kvBytes: numBlocks * blockBytes,
    weightBytes: model.weightBytes,
  };
}
