// KV memory in several parts, as of ranks and stages, with one native transfer engine on it. What a prompt has in its tiles follows
// from the layer, the head and the place in the prompt alone, so that instances that are cut otherwise can be compared.

import { loadNative } from '../../src/native/native.ts';
import type {
  NativeCut,
  NativeKvMemory,
  NativeTransferEngine,
  NativeTransferEvent,
} from '../../src/native/native-transfer.ts';
import { type Gpu, range } from './transfer-node.ts';
import { until } from './until.ts';

/** What two instances have in common. */
export interface PartedModel {
  readonly layers: number;
  readonly heads: number;
  readonly tileTokens: number;
  /** [sections] */
  readonly tileBytes: readonly number[];
}

export interface PartedShape {
  /** Ranks; where the model has one head each has all of it. */
  readonly degree: number;
  readonly stages: number;
  /** Tokens of a block. */
  readonly blockTokens: number;
  readonly blocks: number;
  /** Of an emulated GPU. */
  readonly gpu?: Gpu;
  /** Whether each rank has one of its own. */
  readonly hasGpus?: boolean;
  /** Blocks of the receive memory that the GPU has, too; left out, all. */
  readonly deviceBlocks?: number;
}

interface Part {
  readonly memory: NativeKvMemory;
  readonly layers: { readonly first: number; readonly end: number };
  readonly heads: { readonly first: number; readonly end: number };
}

/** Where the numbers of the heads and layers of two instances and their block sizes meet. */
export function cutOf(model: PartedModel, one: PartedShape, other: PartedShape): NativeCut {
  const shards = model.heads === 1 ? 1 : Math.max(one.degree, other.degree);
  return { shards, tokens: Math.min(one.blockTokens, other.blockTokens) };
}

export class PartedNode {
  readonly model: PartedModel;
  readonly shape: PartedShape;
  readonly parts: readonly Part[];
  readonly engine: NativeTransferEngine;
  readonly events: NativeTransferEvent[] = [];
  readonly #blockBytes: number;

  constructor(model: PartedModel, shape: PartedShape) {
    const { KvMemory, TransferEngine } = loadNative();
    const {
      degree,
      stages,
      blocks,
      blockTokens: tokens,
      gpu,
      deviceBlocks = blocks,
      hasGpus = false,
    } = shape;
    const { heads, tileTokens, tileBytes } = model;
    this.model = model;
    this.shape = shape;
    this.parts = range(stages * degree).map((i) => {
      const layers = share(model.layers, Math.floor(i / degree), stages);
      const own = heads === 1 ? { first: 0, end: 1 } : share(heads, i % degree, degree);
      const layerBlock = { heads: own.end - own.first, tokens, tileTokens, tileBytes };
      return {
        memory: new KvMemory(
          layers.end - layers.first,
          blocks,
          layerBlock,
          gpu?.SVC_CUDA_DRIVER,
          gpu?.SVC_CUDA_KERNELS,
          hasGpus ? i % degree : 0,
        ),
        layers,
        heads: own,
      };
    });
    const bytes = tileBytes.reduce((sum, one) => sum + one, 0);
    this.#blockBytes = model.layers * heads * (tokens / tileTokens) * bytes;
    const parts = this.parts.map(({ memory, ...place }) => ({ ...place, token: memory.share() }));
    const tcp = { host: '127.0.0.1', port: 0 };
    const options = {
      receiveBytes: blocks * this.#blockBytes,
      deviceBytes: deviceBlocks * this.#blockBytes,
      tcp,
      shm: true,
      cudaIpc: 'possible',
      nccl: gpu?.SVC_NCCL === undefined ? null : tcp,
      ncclLibrary: gpu?.SVC_NCCL ?? '/nowhere/libnccl.so.2',
    } as const;
    this.engine = new TransferEngine(parts, options, (events) => void this.events.push(...events));
  }

  /** Of a prompt of `numTokens` tokens. */
  numBlocks(numTokens: number): number {
    return Math.ceil(numTokens / this.shape.blockTokens);
  }

  /** Computes the blocks of a prompt from block index `first` on in one step, part by part. */
  compute(send: number, seed: number, blocks: readonly number[], first = 0): void {
    for (const part of this.parts) {
      part.memory.onKvStep(Int32Array.from([send, first, blocks.length, ...blocks]));
      for (const [row, layer] of rowsOf(part).entries()) {
        for (const [i, block] of blocks.entries()) {
          part.memory.write(row, block, this.layerBlock(part, seed, layer, first + i));
        }
        part.memory.onKvLayerSaved(row);
      }
    }
  }

  /** Lets the blocks of a prompt come, from block index `first` on. */
  receive(ticket: bigint, numTokens: number, first = 0): void {
    const count = this.numBlocks(numTokens) - first;
    const offsets = Float64Array.from({ length: count }, (_, i) => i * this.#blockBytes);
    const lastTokens = numTokens - (first + count - 1) * this.shape.blockTokens;
    this.engine.openReceive(ticket, first, offsets, lastTokens);
  }

  async load(load: number, ticket: bigint, first: number, blocks: readonly number[]): Promise<boolean> {
    this.engine.load(load, ticket, first, Int32Array.from(blocks));
    const event = await this.event('loaded', (one) => one.type === 'loaded' && one.load === load);
    return event.type === 'loaded' && event.isIntact;
  }

  /** The tiles of the prompt's first `numTokens` tokens in these blocks that are not as this instance would have computed them. */
  wrongTiles(seed: number, numTokens: number, blocks: readonly number[], first = 0): number {
    const { tileTokens, tileBytes } = this.model;
    const tiles = this.shape.blockTokens / tileTokens;
    let wrong = 0;
    for (const part of this.parts) {
      const numHeads = part.heads.end - part.heads.first;
      for (const [row, layer] of rowsOf(part).entries()) {
        for (const [i, block] of blocks.entries()) {
          const [have, want] = [part.memory.read(row, block), this.layerBlock(part, seed, layer, first + i)];
          let at = 0;
          for (const bytes of tileBytes) {
            for (let n = 0; n < numHeads * tiles; n++, at += bytes) {
              const token = ((first + i) * tiles + (n % tiles)) * tileTokens;
              const isThere = token < numTokens;
              if (
                isThere &&
                Buffer.compare(have.subarray(at, at + bytes), want.subarray(at, at + bytes)) !== 0
              )
                wrong += 1;
            }
          }
        }
      }
    }
    return wrong;
  }

  count(type: NativeTransferEvent['type']): number {
    return this.events.filter((event) => event.type === type).length;
  }

  async event(
    type: NativeTransferEvent['type'],
    isWanted: (event: NativeTransferEvent) => boolean = () => true,
  ): Promise<NativeTransferEvent> {
    const find = () => this.events.find((event) => event.type === type && isWanted(event));
    await until(() => find() !== undefined);
    return find()!;
  }

  close(): void {
    this.engine.close();
  }

  private layerBlock({ heads }: Part, seed: number, layer: number, index: number): Buffer {
    const { tileTokens, tileBytes } = this.model;
    const tiles = range(this.shape.blockTokens / tileTokens, index * (this.shape.blockTokens / tileTokens));
    const pieces = tileBytes.flatMap((bytes, section) =>
      range(heads.end - heads.first, heads.first).flatMap((head) =>
        tiles.map((tile) => tileOf(bytes, [seed, layer, head, section, tile])),
      ),
    );
    return Buffer.concat(pieces);
  }
}

function rowsOf({ layers }: Part): number[] {
  return range(layers.end - layers.first, layers.first);
}

function share(count: number, index: number, of: number): { first: number; end: number } {
  return { first: Math.floor((count * index) / of), end: Math.floor((count * (index + 1)) / of) };
}

function tileOf(bytes: number, about: readonly number[]): Buffer {
  const tile = Buffer.alloc(bytes);
  let state = about.reduce((sum, number) => (Math.imul(sum, 31) + number + 1) >>> 0, 17);
  for (let at = 0; at < bytes; at += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    tile[at] = state >>> 24;
  }
  return tile;
}
