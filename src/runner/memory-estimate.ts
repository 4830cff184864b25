// How much memory a model takes at each quantisation, and how many tokens of cache are left: told from its configuration and the
// size of its weight files, before anything is loaded.

import { QUANTIZATIONS, type Quantization } from '../config/engine-config.ts';
import { longestSequence } from '../kv-cache/block-groups.ts';
import { kvCacheShape } from '../models/kv-cache-shape.ts';
import { groupLayers } from '../models/layer-groups.ts';
import type { PublishedSize } from '../models/load-model.ts';
import type { ModelConfig } from '../models/model-config.ts';
import { BYTES_PER_ELEMENT, type KvDType } from '../ops/dtype.ts';
import { bytes as shown } from '../util/bytes.ts';
import { hostMemory, kvBlockBytes, type MemoryOps, stateBytes } from './kv-budget.ts';

export interface LoadEstimate {
  /** Null is as published. */
  readonly quantization: Quantization | null;
  readonly weightBytes: number;
  /**
   * Tokens of the KV cache, all sequences together, for each format of keys and values, beside one state where layers keep any. Where some layers see less than others,
   * those of one sequence: several that are shorter than the windows have fewer.
   */
  readonly cacheTokens: Readonly<Partial<Record<KvDType, number>>>;
}

interface Memory {
  readonly freeBytes: number;
  /** Of what is left beside the weights and all else, for the KV cache. */
  readonly share: number;
  /** Most tokens that a step computes. */
  readonly maxStepTokens: number;
}

/** Bits a number that a weight takes, its scales included: one of 32 bits for 32 numbers (int4), or for a row of them. */
const BITS: Readonly<Record<Quantization, number>> = { int8: 8, int4: 5, fp8: 8 };

/** @param numbers of all weights; null where nobody knows, so that nothing is told of other formats than the published one. */
export function estimateLoads(
  config: ModelConfig,
  { bytes, numbers }: { readonly bytes: number; readonly numbers: number | null },
  memory: Memory,
): LoadEstimate[] {
  const plain = [{ quantization: null, weightBytes: publishedWeightBytes(config, bytes) }];
  const quantized =
    numbers === null
      ? []
      : possibleQuantizations(config).map((quantization) => ({
          quantization,
          weightBytes: quantizedBytes(config, numbers, quantization),
        }));
  return [...plain, ...quantized].map((load) => ({
    ...load,
    cacheTokens: cacheTokens(config, load, memory),
  }));
}

/** What weights can be brought to while they are read. */
function possibleQuantizations({ quantization: published }: ModelConfig): readonly Quantization[] {
  return published === null ? QUANTIZATIONS : ['int8'];
}

/** What a person should know before weights are read that the memory may not hold; null where it does, or where they are a device's. */
export function weightsNotice(
  config: ModelConfig,
  published: PublishedSize,
  quantization: Quantization | null,
  ops: MemoryOps,
): string | null {
  if (ops.deviceMemory() !== null || ops.ranks.rank > 0) return null;
  const bytesIn = (format: Quantization | null): number =>
    format === null
      ? publishedWeightBytes(config, published.bytes)
      : quantizedBytes(config, published.numbers, format);
  const [wanted, free] = [bytesIn(quantization), ops.freeMemory()];
  if (wanted <= free) return null;
  const other = possibleQuantizations(config).find((format) => bytesIn(format) <= free);
  const advice =
    other === undefined
      ? 'take a smaller model'
      : `--quantization ${other} takes about ${shown(bytesIn(other))}`;
  return (
    `the weights take about ${shown(wanted)} and ${shown(free)} of memory are free: the system may end the process while they ` +
    `are loaded; ${advice}`
  );
}

/** Float16 is computed in bfloat16; what is quantised already stays as it is. */
function publishedWeightBytes(config: ModelConfig, publishedBytes: number): number {
  if (config.quantization !== null) return publishedBytes;
  const computed = config.checkpointDType === 'f32' ? 'f32' : 'bf16';
  return numbersIn(config, publishedBytes) * BYTES_PER_ELEMENT[computed];
}

/** Parameters of a model that is not quantised. */
export function numbersIn({ checkpointDType }: ModelConfig, publishedBytes: number): number {
  return Math.round(publishedBytes / BYTES_PER_ELEMENT[checkpointDType ?? 'bf16']);
}

/** Embeddings of their own stay in bfloat16; a head, which they may be as well, is int8. */
function quantizedBytes(config: ModelConfig, numbers: number, quantization: Quantization): number {
  const table = config.vocabSize * config.hiddenSize;
  const embeddings = config.tieWordEmbeddings ? 0 : table;
  const products = Math.max(0, numbers - table - embeddings);
  return Math.round(embeddings * BYTES_PER_ELEMENT.bf16 + table + (products * BITS[quantization]) / 8);
}

function cacheTokens(
  config: ModelConfig,
  { weightBytes, quantization }: Pick<LoadEstimate, 'weightBytes' | 'quantization'>,
  { freeBytes, share, maxStepTokens }: Memory,
): LoadEstimate['cacheTokens'] {
  const isQuantized = quantization !== null || config.quantization !== null;
  const { bytes } = hostMemory(Math.max(0, freeBytes - weightBytes), share);
  const computed = config.checkpointDType === 'f32' && !isQuantized ? 'f32' : 'bf16';
  const formats: readonly KvDType[] = computed === 'f32' ? ['f32'] : ['bf16', 'int8', 'fp8'];
  const { ofLayers: layerGroups, windows } = groupLayers(config);
  return Object.fromEntries(
    formats.map((format) => {
      const shape = {
        ...kvCacheShape(config, format, { blocks: 1, blockSize: 1, sequences: 1 }),
        layerGroups,
      };
      const states = stateBytes({ shape, windows }, { numRanks: 1, stage: null });
      const numBlocks = Math.max(0, Math.floor((bytes - states) / kvBlockBytes(shape)));
      return [format, longestSequence({ blockSize: 1, windows }, numBlocks, maxStepTokens)];
    }),
  );
}
