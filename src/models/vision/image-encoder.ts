// Sees images: patches of a tile become rows that stand among the embeddings of a prompt. Each tile is computed by itself, so that its rows
// are the same whatever else is computed.

import type { ImageTile, PreparedImage } from '../../images/image-processor.ts';
import type { KvCache, Ops, StepArrays, Tensor } from '../../ops/ops.ts';
import type { LinearWeight } from '../../ops/weights.ts';
import { kvCacheShape } from '../kv-cache-shape.ts';
import type { Layer } from '../layers/layer.ts';
import type { Norm } from '../layers/norm.ts';
import type { Step } from '../layers/step.ts';
import type { ModelConfig, VisionConfig } from '../model-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';
import { mergePatches, type PatchOrder } from './merge-patches.ts';

/** What an encoder is loaded from. */
export interface VisionContext {
  readonly config: VisionConfig;
  readonly ops: Ops;
  /** Of the encoder alone: what is quantised, adapted or counted of the rest of the model is not of it. */
  readonly weights: WeightReader;
  /** What takes its rows. */
  readonly text: Pick<ModelConfig, 'hiddenSize' | 'normEps'>;
}

export interface ImageEncoderParts {
  /** [hidden, 3 * patchSize * patchSize] */
  readonly patches: LinearWeight;
  /** [patches] the rows of the tables of `rope` that turn them; left out where layers know no positions. */
  readonly positionsOf?: (tile: ImageTile) => Int32Array;
  /** x [patches, hidden] f32 -> what the first layer sees; it may be done in place. */
  readonly begin: (x: Tensor, tile: ImageTile, step: Step) => Tensor;
  readonly layers: readonly Layer[];
  /** Left out where the last layer's rows are taken as they are. */
  readonly finalNorm?: Norm;
  /** How the neighbours that become one row follow each other in it. */
  readonly order: PatchOrder;
  /** [rows, hidden * mergeSize²] f32, or of means [rows, hidden] -> [rows, hidden of the model] f32 */
  readonly project: (ops: Ops, merged: Tensor) => Tensor;
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
    const blocks = Math.ceil(config.patchesPerSide ** 2 / BLOCK_SIZE);
    const size = { blocks, blockSize: BLOCK_SIZE, sequences: 1 };
    this.#cache = ops.makeKvCache(kvCacheShape(config.layers, weights.dtype, size, weights.share));
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
    const { patchesPerSide: side, patchSize } = this.#context.config;
    return { rows: side, cols: side, patches: new Uint8Array(side ** 2 * 3 * patchSize ** 2) };
  }

  /** @returns [rows of the tile, hidden of the model]; waits for them, and for the ops before. */
  encode(tile: ImageTile, colours: PreparedImage['colours']): Float32Array {
    const { ops, config } = this.#context;
    const { order, project } = this.#parts;
    const { mergeSize } = config;
    return ops.scope(() => {
      const merged = mergePatches(ops.read(this.#see(tile, colours)), tile, mergeSize, order);
      const rows = this.numRows(tile);
      return ops.read(project(ops, ops.tensor(merged, rows, merged.length / rows, 'f32')));
    });
  }

  /** @returns f32 [patches, hidden] */
  #see(tile: ImageTile, colours: PreparedImage['colours']): Tensor {
    const { ops, config } = this.#context;
    const { patches, positionsOf, begin, layers, finalNorm } = this.#parts;
    const numPatches = tile.rows * tile.cols;
    const inputs = ops.beginStep(this.#cache, stepOf(numPatches, positionsOf?.(tile)));
    const step: Step = { ops, inputs };
    const numbers = colouredNumbers(tile, colours, config.patchSize);
    const coloured = ops.tensor(numbers, numPatches, numbers.length / numPatches, patches.inputDType);
    const x = begin(ops.linear(coloured, patches), tile, step);
    for (const layer of layers) ops.scope(() => layer(x, step));
    return finalNorm?.(step, x, 'f32') ?? x;
  }
}

/** Of one sequence, each patch a token. */
function stepOf(numPatches: number, positions?: Int32Array): StepArrays {
  const counted = Int32Array.from({ length: numPatches }, (_, patch) => patch);
  const maxBlocks = Math.ceil(numPatches / BLOCK_SIZE);
  return {
    positions: positions ?? counted,
    slotMapping: counted,
    batch: {
      numSequences: 1,
      queryStarts: Int32Array.of(0, numPatches),
      contextLengths: Int32Array.of(numPatches),
      blockTables: counted.slice(0, maxBlocks),
      maxBlocks,
    },
  };
}

/** [patches, 3 * patchSize²] */
function colouredNumbers(
  { patches }: ImageTile,
  { factors, offsets }: PreparedImage['colours'],
  patchSize: number,
): Float32Array {
  const plane = patchSize ** 2;
  const numbers = new Float32Array(patches.length);
  for (let start = 0; start < patches.length; start += plane) {
    const colour = (start / plane) % factors.length;
    const [factor, offset] = [factors[colour]!, offsets[colour]!];
    for (let i = start; i < start + plane; i++) numbers[i] = patches[i]! * factor + offset;
  }
  return numbers;
}
