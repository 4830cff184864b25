// From where a model is published to a model in memory.

import type { DTypeOption, KvCacheDType, Quantization } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import {
  type ComputeDType,
  formatName,
  type HalfDType,
  type KvDType,
  type WeightFormat,
} from '../ops/dtype.ts';
import type { Ops } from '../ops/ops.ts';
import type { RankPlace } from '../ops/ranks.ts';
import { kvCacheShape } from './kv-cache-shape.ts';
import { allLayers, type LayerRange } from './layer-range.ts';
import type { Model, ModelShape } from './model.ts';
import type { ModelConfig } from './model-config.ts';
import type { PoolingChoice } from './pooling/pooling-config.ts';
import { RankShare } from './rank-share.ts';
import { findArchitecture, readModelConfig } from './registry.ts';
import type { Checkpoint } from './source/checkpoint.ts';
import type { ModelSource } from './source/model-source.ts';
import { findTensorNames, type TensorNames } from './tensor-names.ts';
import type { ImageEncoder } from './vision/image-encoder.ts';
import { expectItsLayers, judgeUnused } from './weights/checkpoint-fit.ts';
import { hasOwnHead, ownHeadNote } from './weights/own-head.ts';
import type { PackedCache } from './weights/packed-cache.ts';
import { WeightReader } from './weights/weight-reader.ts';

export interface PublishedSize {
  readonly bytes: number;
  /** Of weights, however many bits each has. */
  readonly numbers: number;
}

export interface LoadOptions {
  readonly dtype: DTypeOption;
  /** What weights are turned into while they are read; null or absent keeps them in the format to compute in. */
  readonly quantization?: Quantization | null;
  /** Format of keys and values; absent is `auto`. */
  readonly kvCacheDtype?: KvCacheDType;
  /** Where packed weights are taken from and written to; null or absent packs them. */
  readonly packedCache?: PackedCache | null;
  /** Longest context that may be served; null is the model's own limit. */
  readonly maxModelLen: number | null;
  /**
   * Asked once the weights are in memory: the longest context that will be served, at most `maxModelLen`; null or absent is that.
   */
  readonly servedLength?: ((model: ModelShape) => Promise<number>) | null;
  /** The layers to load, with what is before the first one and after the last; absent is all. */
  readonly layers?: LayerRange;
  /** Whether the part that sees images is loaded, where the model has one; absent is yes. */
  readonly seesImages?: boolean;
  /** Patches of a picture at most, where that is less than the model could see. */
  readonly mostPatches?: number | undefined;
  /** What it is to be served as; absent is what its files say. */
  readonly choice?: PoolingChoice;
  /** Called before a weight is read, with the size of all that is published; what it throws ends the load. */
  readonly onOpen?: (model: ModelShape, published: PublishedSize) => void;
  /** Gets what a person should know of a model that can be served all the same. */
  readonly onWarning?: (message: string) => void;
  /** Called with a rising share of the work and the name of what was just read. */
  readonly onProgress?: (fraction: number, what: string) => void;
}

/** The table of rotary angles is one array over all positions; no published model reaches beyond 10 million. */
const MAX_LENGTH = 10_000_000;

/**
 * Loads the model into the memory of `ops`.
 * @throws ModelLoadError naming the file, the tensor and what was expected; ConfigError for a context that is
 *   longer than the model's.
 */
export async function loadModel(source: ModelSource, ops: Ops, options: LoadOptions): Promise<Model> {
  const config = readModelConfig(source, options.choice);
  const share = new RankShare(ops.ranks);
  share.expectPossible(config);
  if (config.vision !== null) share.expectPossible(config.vision.layers);
  const maxModelLen = checkLength(config, options.maxModelLen);
  const checkpoint = source.openCheckpoint();
  try {
    return await loadFrom(checkpoint, source, ops, { ...options, maxModelLen }, config, share);
  } finally {
    checkpoint.close();
  }
}

async function loadFrom(
  checkpoint: Checkpoint,
  source: ModelSource,
  ops: Ops,
  options: LoadOptions & { readonly maxModelLen: number },
  published: ModelConfig,
  share: RankShare,
): Promise<Model> {
  const names = findTensorNames(checkpoint, published.tensorNames);
  const isHeadItsOwn = hasOwnHead(checkpoint, published, names);
  const config = isHeadItsOwn ? { ...published, tieWordEmbeddings: false } : published;
  expectItsLayers(checkpoint, config, names);
  expectPossibleQuantization(source, config, options);
  const dtype = chooseDType(config, checkpoint, names, options, ops.half);
  const kvDType = chooseKvDType(dtype, options);
  const shape: ModelShape = {
    config,
    dtype,
    kvDType,
    kvCacheShape: (size) => kvCacheShape(config, kvDType, size, share),
  };
  options.onOpen?.(shape, { bytes: checkpoint.byteLength, numbers: checkpoint.numNumbers });
  const layers = options.layers ?? allLayers(config);
  const seesImages = isToSee(config, layers, options);
  const formats = formatsFor(options.quantization ?? null, dtype);
  options.packedCache?.open({
    fingerprint: source.fingerprint(),
    fileStates: checkpoint.fileStates,
    formats: [
      dtype,
      formatName(formats.products),
      formatName(formats.head),
      ...kindOf(config, layers, seesImages),
      ...placeOf(ops.ranks),
    ],
  });
  const weights = new WeightReader(checkpoint, ops, { dtype, ...formats, published: config.quantization });
  const progress = async (fraction: number, what: string) => {
    options.onProgress?.(fraction, what);
    // A turn for whoever shows the progress.
    await new Promise(setImmediate);
  };
  const { servedLength = null } = options;
  const { load } = findArchitecture(config.architecture);
  const imageEncoder = seesImages
    ? loadImageEncoder(config, checkpoint, ops, dtype, options.mostPatches)
    : null;
  const model = await load({
    config,
    ops,
    weights,
    names,
    layers,
    kvDType,
    imageEncoder,
    maxModelLen: options.maxModelLen,
    servedLength: servedLength && (() => servedLength(shape)),
    progress,
  });
  checkpoint.expectUnchanged();
  const notes = [
    source.note ?? null,
    isHeadItsOwn ? ownHeadNote(source.path, names) : null,
    judgeUnused(checkpoint, config, names, layers, seesImages),
    seesImages && imageEncoder === null ? noEncoderNote(source.path) : null,
    weights.widenedBlocks,
    stretchNote(source.path, config, options.maxModelLen),
  ];
  for (const note of notes) {
    if (note !== null) options.onWarning?.(note);
  }
  options.packedCache?.close();
  return model;
}

/** Whether the part that sees images is loaded: with the embeddings, where its rows go, and not beside what reads only text. */
function isToSee(
  { vision, pooling }: ModelConfig,
  { first }: LayerRange,
  { seesImages = true }: LoadOptions,
): boolean {
  return seesImages && vision !== null && pooling === null && first === 0;
}

/**
 * Its weights stay in the format to compute in, and are counted by themselves: no step that decodes reads them. Null where the checkpoint
 * has none.
 */
function loadImageEncoder(
  config: ModelConfig,
  checkpoint: Checkpoint,
  ops: Ops,
  dtype: ComputeDType,
  mostPatches?: number,
): ImageEncoder | null {
  const { architecture, vision, quantization: published } = config;
  const weights = new WeightReader(checkpoint, ops, { dtype, products: dtype, head: dtype, published });
  return findArchitecture(architecture).loadImageEncoder!({
    config: vision!,
    text: config,
    ops,
    weights,
    mostPatches,
  });
}

function noEncoderNote(path: string): string {
  return `${path}: the checkpoint has no tensors of the vision_config in config.json: the model reads only text`;
}

/**
 * A model that pools has other weights packed than one that generates, of the same files, one that sees those of its encoder, too, and a
 * stage those of its layers.
 */
function kindOf(
  { pooling, numLayers }: ModelConfig,
  { first, end }: LayerRange,
  seesImages: boolean,
): string[] {
  const stage = end - first < numLayers ? [`layers ${first} to ${end}`] : [];
  const encoder = seesImages ? ['images'] : [];
  return pooling === null ? [...encoder, ...stage] : [pooling.task, ...stage];
}

/** Each rank has other weights packed, of the same files. */
function placeOf({ rank, size }: RankPlace): string[] {
  return size === 1 ? [] : [`rank ${rank} of ${size}`];
}

/**
 * What plain weights are brought to. In 4 bits the output head, which may be the embeddings as well, would cost more quality
 * than all layers; in int8 it costs next to none.
 */
function formatsFor(
  quantization: Quantization | null,
  dtype: ComputeDType,
): { products: WeightFormat; head: WeightFormat } {
  switch (quantization) {
    case null:
      return { products: dtype, head: dtype };
    case 'int8':
      return { products: 'int8', head: 'int8' };
    case 'int4':
      return { products: { kind: 'int4', groupSize: 32, hasZeros: false }, head: 'int8' };
    case 'fp8':
      return { products: { kind: 'fp8', groupSize: null, hasZeros: false }, head: 'int8' };
  }
}

function checkLength({ maxPositionEmbeddings, longestContext }: ModelConfig, wanted: number | null): number {
  if (wanted !== null && wanted > longestContext) {
    throw new ConfigError(
      `--max-model-len ${wanted} is longer than the model's own limit of ${longestContext} tokens ` +
        '(max_position_embeddings in config.json, max_seq_length in sentence_bert_config.json); lower it or leave it out',
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

/**
 * The original stretches dynamic positions anew for each length: every token would need all before it computed again. Null where nothing
 * is stretched so.
 */
function stretchNote(path: string, { maxPositionEmbeddings }: ModelConfig, length: number): string | null {
  if (length <= maxPositionEmbeddings) return null;
  return (
    `${path}: contexts of more than ${maxPositionEmbeddings} tokens (rope type dynamic) are stretched as the original does for one of ` +
    `${length}, --max-model-len: at other lengths the answers differ from the original's`
  );
}

/**
 * What is quantised already may become int8, whose products take the least time; other formats would only cost quality.
 * @throws ConfigError where it is to become one of these, or to be computed with in float32.
 */
function expectPossibleQuantization(
  { path }: ModelSource,
  { quantization: published }: ModelConfig,
  { quantization = null, dtype }: LoadOptions,
): void {
  if (published === null) return;
  if (quantization !== null && quantization !== 'int8') {
    throw new ConfigError(
      `the weights of ${path} are quantised already (${published.method}): leave out --quantization, or give int8, in which ` +
        'long prompts and many sequences take less time, and a number takes 8 bits',
      { param: 'quantization' },
    );
  }
  if (dtype === 'float32') {
    throw new ConfigError(
      `the weights of ${path} are quantised (${published.method}), which are computed with in bfloat16 or float16: leave out --dtype`,
      { param: 'dtype' },
    );
  }
}

/**
 * The numbers of 16 bits to compute with where a device has those of both formats. f16 has a smaller range than bf16: what is quantised is
 * computed in it only where it is asked for.
 */
export function preferredHalf(
  { checkpointDType, quantization: published }: ModelConfig,
  { dtype, quantization = null }: Pick<LoadOptions, 'dtype' | 'quantization'>,
): HalfDType {
  if (dtype !== 'auto') return dtype === 'float16' ? 'f16' : 'bf16';
  return checkpointDType === 'f16' && quantization === null && published === null ? 'f16' : 'bf16';
}

/** `auto` is the published format, in the device's halves where it has 16 bits. */
function chooseDType(
  config: ModelConfig,
  checkpoint: Checkpoint,
  names: TensorNames,
  { dtype, quantization = null }: Pick<LoadOptions, 'dtype' | 'quantization'>,
  half: HalfDType,
): ComputeDType {
  if (dtype !== 'auto') return dtype === 'float32' ? 'f32' : half;
  if (quantization !== null || config.quantization !== null) return half;
  const { vocabSize, hiddenSize, checkpointDType } = config;
  const published =
    checkpointDType ?? checkpoint.find(`${names.embedding}.weight`, [vocabSize, hiddenSize]).dtype;
  return published === 'f32' ? 'f32' : half;
}

/** @throws ConfigError where a model in float32 is to keep less of its keys and values, or one in float16 others. */
function chooseKvDType(dtype: ComputeDType, { kvCacheDtype = 'auto' }: LoadOptions): KvDType {
  if (kvCacheDtype === 'auto') return dtype;
  if (dtype === 'f32') {
    throw notForKv(kvCacheDtype, 'models in 16 bits, and this one is computed in float32', 'bfloat16');
  }
  if (kvCacheDtype === 'bf16' && dtype === 'f16') {
    throw notForKv(kvCacheDtype, 'models in bfloat16, and this one is computed in float16', 'bfloat16');
  }
  return kvCacheDtype;
}

function notForKv(kvCacheDtype: KvCacheDType, what: string, dtype: DTypeOption): ConfigError {
  return new ConfigError(
    `--kv-cache-dtype ${kvCacheDtype} is for ${what}: leave it out, or give --dtype ${dtype}`,
    { param: 'kv-cache-dtype' },
  );
}
