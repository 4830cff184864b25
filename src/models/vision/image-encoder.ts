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
import {
  mostBlocks,
  numRowsOf,
  type PatchGroups,
  stepOfGroups,
  wholeTileGroup,
  windowGroups,
} from './patch-groups.ts';
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
  /** x [rows, hidden] f32 -> what the first layer sees; it may be done in place. Of zeros, where a row is of no patch, are its numbers made. */
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

/** A tile on its way through the layers. */
export interface TileSight {
  readonly tile: ImageTile;
  readonly colours: PreparedImage['colours'];
  readonly groups: PatchGroups;
  /** It has been through so many. */
  numLayers: number;
  /** [rows, hidden] between two of them; null before the first. */
  stream: Float32Array | null;
  /** Of each deep layer that it has been through, [rows of the tile, hidden of the model] */
  readonly deep: Float32Array[];
}

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

  get numLayers(): number {
    return this.#parts.layers.length;
  }

  /** Bytes of weights that all layers of a rank multiply with, for each patch, and of keys and values for each that it looks at. */
  get multiplied(): { readonly ofPatch: number; readonly ofPair: number } {
    const { config, weights } = this.#context;
    const numWhole = this.#parts.layers.filter((_, layer) => this.#isWhole(layer)).length;
    const ofNumber = weights.dtype === 'f32' ? 4 : 2;
    const ownWidth = config.layers.hiddenSize / weights.share.place.size;
    return { ofPatch: weights.packedBytes, ofPair: 2 * ownWidth * numWhole * ofNumber };
  }

  /** Rows that `encode` makes of a tile. */
  numRows({ rows, cols }: Pick<ImageTile, 'rows' | 'cols'>): number {
    return (rows * cols) / this.#context.config.mergeSize ** 2;
  }

  /** Of the rows that `encode` makes of the largest tile. */
  get mostRowBytes(): number {
    const { text } = this.#context;
    const numRows = this.#mostPatches / this.#context.config.mergeSize ** 2;
    const numParts = 1 + (this.#parts.deepProjects?.size ?? 0);
    return numRows * numParts * text.hiddenSize * Float32Array.BYTES_PER_ELEMENT;
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
    // behind its activation; its numbers before and behind rounding. The stream once more, between layers that different steps see.
    const ofPatch = 30 * hiddenSize + 6 * intermediateSize + 6 * 3 * frames * patchSize ** 2;
    return this.#mostPatches * ofPatch;
  }

  /** @returns [rows of the tile, see `ImageRows`]; waits for them, and for the ops before. */
  encode(tile: ImageTile, colours: PreparedImage['colours']): Float32Array {
    return this.see(this.begin(tile, colours), this.numLayers)!;
  }

  /** Nothing is computed yet. */
  begin(tile: ImageTile, colours: PreparedImage['colours']): TileSight {
    const { windows, hasTileToken } = this.#context.config;
    const groups =
      windows === null ? wholeTileGroup(tile, hasTileToken ? 1 : 0) : windowGroups(tile, windows.side);
    return { tile, groups, colours, numLayers: 0, stream: null, deep: [] };
  }

  /**
   * Takes a tile through the next `numLayers` layers, and waits for them, and for the ops before.
   * @returns what `encode` does, once it has been through all, else null
   */
  see(sight: TileSight, numLayers: number): Float32Array | null {
    const { ops } = this.#context;
    const end = Math.min(sight.numLayers + numLayers, this.numLayers);
    return ops.scope(() => {
      const x = this.#seeLayers(sight, end);
      if (end === this.numLayers) return sideBySide(this.#project(sight, x), this.numRows(sight.tile));
      sight.stream = ops.read(x);
      return null;
    });
  }

  /** Up to before the layer `end`. @returns f32 [rows, hidden] */
  #seeLayers(sight: TileSight, end: number): Tensor {
    const { ops } = this.#context;
    const { layers, deepProjects } = this.#parts;
    let step = this.#beginStep(sight);
    const x = this.#streamOf(sight, step);
    while (sight.numLayers < end) {
      const layer = sight.numLayers;
      if (layer > 0 && this.#isWhole(layer) !== this.#isWhole(layer - 1)) step = this.#beginStep(sight);
      ops.scope(() => layers[layer]!(x, step));
      const project = deepProjects?.get(layer);
      if (project) sight.deep.push(this.#merge(x, sight, project));
      sight.numLayers += 1;
    }
    return x;
  }

  /** f32 [rows, hidden] as the next layer gets it. */
  #streamOf({ tile, groups, colours, stream }: TileSight, step: Step): Tensor {
    const { ops, config } = this.#context;
    const { patches, begin } = this.#parts;
    const rows = numRowsOf(groups);
    if (stream !== null) return ops.tensor(stream, rows, stream.length / rows, 'f32');
    const numbers = colouredNumbers(tile, groups, colours, config);
    const x = ops.linear(ops.tensor(numbers, rows, numbers.length / rows, patches.inputDType), patches);
    return begin(x, tile, step);
  }

  /** Whether all patches see each other in a layer. */
  #isWhole(layer: number): boolean {
    const { windows } = this.#context.config;
    return windows === null || windows.wholeLayers.includes(layer);
  }

  /** Of the next layer, and of those after it that are like it. */
  #beginStep({ tile, groups, numLayers }: TileSight): Step {
    const { ops } = this.#context;
    const seen = this.#isWhole(numLayers) ? asOne(groups) : groups;
    return { ops, inputs: ops.beginStep(this.#cache, stepOfGroups(seen, tile, BLOCK_SIZE)) };
  }

  /** @returns [rows of the tile, hidden of the model] of what the model takes, then of the deep layers in their order. */
  #project(sight: TileSight, x: Tensor): Float32Array[] {
    const { finalNorm, project } = this.#parts;
    return [this.#merge(finalNorm?.(this.#context, x, 'f32') ?? x, sight, project), ...sight.deep];
  }

  /** x [rows, hidden] f32 -> [rows of the tile, hidden of the model], of those of patches alone */
  #merge(x: Tensor, { tile, groups }: TileSight, project: Projector): Float32Array {
    const { ops, config } = this.#context;
    return ops.scope(() => {
      const ofPatches = ops.read(x).subarray(groups.numBefore * x.cols);
      const merged = mergePatches(ofPatches, groups.patches, tile, config.mergeSize, this.#parts.order);
      const rows = this.numRows(tile);
      return ops.read(project(ops, ops.tensor(merged, rows, merged.length / rows, 'f32')));
    });
  }
}

function asOne(groups: PatchGroups): PatchGroups {
  return { ...groups, starts: [0, numRowsOf(groups)] };
}

/** Of rows before the patches zeros, and of patches [patches, 3 * frames * patchSize²]: each frame of an image is the same. */
function colouredNumbers(
  { patches: bytes }: ImageTile,
  { numBefore, patches }: PatchGroups,
  { factors, offsets }: PreparedImage['colours'],
  { patchSize, frames }: VisionConfig,
): Float32Array {
  const plane = patchSize ** 2;
  const ofPatch = factors.length * frames * plane;
  const numbers = new Float32Array((numBefore + patches.length) * ofPatch);
  let to = numBefore * ofPatch;
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
