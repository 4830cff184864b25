// Sees images: patches of a tile become rows that stand among the embeddings of a prompt. Each tile is computed by itself, so that its rows
// are the same whatever else is computed.

import type { ImageTile, PreparedImage } from '../../images/image-processor.ts';
import type { KvCache, Ops, Tensor } from '../../ops/ops.ts';
import type { LinearWeight } from '../../ops/weights.ts';
import { kvCacheShape } from '../kv-cache-shape.ts';
import type { Layer } from '../layers/layer.ts';
import type { Norm } from '../layers/norm.ts';
import type { Step } from '../layers/step.ts';
import type { ModelConfig, VisionConfig } from '../model-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';
import { mergePatches, type NeighbourOrder } from './merge-patches.ts';
import { mostBlocks, type PatchGroups, stepOfGroups, wholeTileGroup, windowGroups } from './patch-groups.ts';
import { wholeImageTokensOf } from './whole-image-tokens.ts';

/** What an encoder is loaded from. */
export interface VisionContext {
  readonly config: VisionConfig;
  readonly ops: Ops;
  /** Of the encoder alone: what is quantised, adapted or counted of the rest of the model is not of it. */
  readonly weights: WeightReader;
  /** What takes its rows. */
  readonly text: Pick<ModelConfig, 'hiddenSize' | 'normEps'>;
  /** That a tile has at most; left out, as many as there can be. */
  readonly mostPatches?: number | undefined;
}

export interface ImageEncoderParts {
  /** [hidden, 3 * frames * patchSize * patchSize] */
  readonly patches: LinearWeight;
  /** x [patches, hidden] f32 -> what the first layer sees; it may be done in place. */
  readonly begin: (x: Tensor, tile: ImageTile, step: Step) => Tensor;
  readonly layers: readonly Layer[];
  /** Left out where the last layer's rows are taken as they are. */
  readonly finalNorm?: Norm;
  /** How the neighbours that become one row follow each other in it. */
  readonly order: NeighbourOrder;
  readonly project: Projector;
  /** By the number of a layer, what more becomes of its rows. */
  readonly deepProjects?: ReadonlyMap<number, Projector>;
}

/** [rows, hidden * mergeSize²] f32, or of means [rows, hidden] -> [rows, hidden of the model] f32 */
export type Projector = (ops: Ops, merged: Tensor) => Tensor;

const BLOCK_SIZE = 16;

export class ImageEncoder {
  readonly #context: VisionContext;
  readonly #parts: ImageEncoderParts;
  /** Of one layer: each reads what it has just stored. */
  readonly #cache: KvCache;

  constructor(context: VisionContext, parts: ImageEncoderParts) {
    this.#context = context;
    this.#parts = parts;
    const { config, ops, weights } = context;
    const size = {
      blocks: mostBlocks(config, this.#mostPatches, BLOCK_SIZE),
      blockSize: BLOCK_SIZE,
      sequences: 1,
    };
    this.#cache = ops.makeKvCache(kvCacheShape(config.layers, weights.dtype, size, weights.share));
  }

  get #mostPatches(): number {
    const { config, mostPatches = Number.POSITIVE_INFINITY } = this.#context;
    return Math.min(config.patchesPerSide ** 2, mostPatches);
  }

  /** See `wholeImageTokensOf`. */
  get wholeImageTokens(): number | null {
    return wholeImageTokensOf(this.#context.config, this.#mostPatches);
  }

  /** Of the weights that a row takes, each as often as there are patches in it. */
  get weightBytesOfToken(): number {
    const { config, weights } = this.#context;
    return weights.packedBytes * config.mergeSize ** 2;
  }

  /** Rows that `encode` makes of a tile. */
  numRows({ rows, cols }: Pick<ImageTile, 'rows' | 'cols'>): number {
    return (rows * cols) / this.#context.config.mergeSize ** 2;
  }

  /** A tile that takes as much memory as any. */
  get largestTile(): ImageTile {
    const { patchSize, mergeSize } = this.#context.config;
    const side = Math.floor(Math.sqrt(this.#mostPatches) / mergeSize) * mergeSize;
    return { rows: side, cols: side, patches: new Uint8Array(side ** 2 * 3 * patchSize ** 2) };
  }

  /** About what `encode` takes of memory for the largest tile. */
  get peakBytes(): number {
    const { patchSize, frames, layers } = this.#context.config;
    const { hiddenSize, intermediateSize } = layers;
    // Of a patch: the stream, norms, queries, keys and values, what heads see, and the same kept by the cache; the feed-forward before and
    // behind its activation; its numbers before and behind rounding.
    const ofPatch = 26 * hiddenSize + 6 * intermediateSize + 6 * 3 * frames * patchSize ** 2;
    return this.#mostPatches * ofPatch;
  }

  /** @returns [rows of the tile, see `ImageRows`]; waits for them, and for the ops before. */
  encode(tile: ImageTile, colours: PreparedImage['colours']): Float32Array {
    const { ops, config } = this.#context;
    const groups = config.windows === null ? wholeTileGroup(tile) : windowGroups(tile, config.windows.side);
    return ops.scope(() => sideBySide(this.#see(tile, groups, colours), this.numRows(tile)));
  }

  /** @returns [rows of the tile, hidden of the model] of what the model takes, then of the deep layers in their order. */
  #see(tile: ImageTile, groups: PatchGroups, colours: PreparedImage['colours']): Float32Array[] {
    const { ops } = this.#context;
    const { begin, layers, finalNorm, project, deepProjects } = this.#parts;
    let step = this.#beginStep(tile, this.#isWhole(0) ? asOne(groups) : groups);
    const x = begin(this.#embed(tile, groups, colours), tile, step);
    const deep: Float32Array[] = [];
    for (const [index, layer] of layers.entries()) {
      if (index > 0 && this.#isWhole(index) !== this.#isWhole(index - 1)) {
        step = this.#beginStep(tile, this.#isWhole(index) ? asOne(groups) : groups);
      }
      ops.scope(() => layer(x, step));
      const projector = deepProjects?.get(index);
      if (projector) deep.push(this.#merge(x, tile, groups, projector));
    }
    return [this.#merge(finalNorm?.(step, x, 'f32') ?? x, tile, groups, project), ...deep];
  }

  /** Whether all patches see each other in a layer. */
  #isWhole(layer: number): boolean {
    const { windows } = this.#context.config;
    return windows === null || windows.wholeLayers.includes(layer);
  }

  #beginStep(tile: ImageTile, groups: PatchGroups): Step {
    const { ops } = this.#context;
    return { ops, inputs: ops.beginStep(this.#cache, stepOfGroups(groups, tile, BLOCK_SIZE)) };
  }

  /** @returns f32 [patches, hidden] */
  #embed(tile: ImageTile, { patches }: PatchGroups, colours: PreparedImage['colours']): Tensor {
    const { ops, config } = this.#context;
    const weight = this.#parts.patches;
    const numbers = colouredNumbers(tile, patches, colours, config);
    const { length: rows } = patches;
    return ops.linear(ops.tensor(numbers, rows, numbers.length / rows, weight.inputDType), weight);
  }

  /** x [patches, hidden] f32 -> [rows of the tile, hidden of the model] */
  #merge(x: Tensor, tile: ImageTile, { patches }: PatchGroups, project: Projector): Float32Array {
    const { ops, config } = this.#context;
    return ops.scope(() => {
      const merged = mergePatches(ops.read(x), patches, tile, config.mergeSize, this.#parts.order);
      const rows = this.numRows(tile);
      return ops.read(project(ops, ops.tensor(merged, rows, merged.length / rows, 'f32')));
    });
  }
}

function asOne({ patches }: PatchGroups): PatchGroups {
  return { patches, starts: [0, patches.length] };
}

/** Of the given patches, [patches, 3 * frames * patchSize²]: each frame of an image is the same. */
function colouredNumbers(
  { patches: bytes }: ImageTile,
  patches: Int32Array,
  { factors, offsets }: PreparedImage['colours'],
  { patchSize, frames }: VisionConfig,
): Float32Array {
  const plane = patchSize ** 2;
  const numbers = new Float32Array(bytes.length * frames);
  let to = 0;
  for (const patch of patches) {
    for (const [colour, factor] of factors.entries()) {
      const first = (patch * factors.length + colour) * plane;
      for (let i = first; i < first + plane; i++) numbers[to++] = bytes[i]! * factor + offsets[colour]!;
      for (let frame = 1; frame < frames; frame++, to += plane) numbers.copyWithin(to, to - plane, to);
    }
  }
  return numbers;
}

/** @param parts each [rows, hidden], of which the first row becomes the first row of the result. */
function sideBySide(parts: readonly Float32Array[], rows: number): Float32Array {
  const [first, ...others] = parts;
  if (others.length === 0) return first!;
  const hidden = first!.length / rows;
  const joined = new Float32Array(first!.length * parts.length);
  for (const [index, part] of parts.entries()) {
    for (let row = 0; row < rows; row++) {
      joined.set(part.subarray(row * hidden, (row + 1) * hidden), (row * parts.length + index) * hidden);
    }
  }
  return joined;
}
