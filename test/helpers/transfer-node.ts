// KV memory with a native transfer engine on it, whose events a test waits for. Several fit into one process.

import { createCipheriv } from 'node:crypto';
import { afterEach } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import type {
  NativeKvMemory,
  NativeKvPart,
  NativeTransferEngine,
  NativeTransferEvent,
  Transport,
} from '../../src/native/native-transfer.ts';
import { numKvRows } from '../../src/ops/kv-rows.ts';

export interface Shape {
  readonly layers: number;
  readonly blocks: number;
  readonly layerBlockBytes: number;
  /** Of a block; left out, one. */
  readonly tokens?: number;
  /** [layers] The group of each; left out, all are of one. */
  readonly layerGroups?: readonly number[];
}

export const SHAPE: Shape = { layers: 3, blocks: 64, layerBlockBytes: 4096 };
export const KINDS = ['shm', 'tcp'] as const;
export type Kind = Transport;

/** Whose memory KV memory is. */
export interface Gpu {
  readonly SVC_CUDA_DRIVER: string;
  readonly SVC_CUDA_KERNELS: string;
  /** Where it is one of NCCL, too. */
  readonly SVC_NCCL?: string;
}

const PATIENCE_MS = 20_000;

type EventOf<T extends NativeTransferEvent['type']> = Extract<NativeTransferEvent, { type: T }>;

/** KV memory in one part, of one head. */
export function wholeMemory(token: bigint, layers: number): NativeKvPart[] {
  return [{ token, layers: { first: 0, end: layers }, heads: { first: 0, end: 1 } }];
}

export class TransferNode {
  readonly shape: Shape;
  readonly memory: NativeKvMemory;
  readonly engine: NativeTransferEngine;
  /** All that came, oldest first. */
  readonly events: NativeTransferEvent[] = [];
  #waiting: (() => void)[] = [];
  #nextLoad = 1;

  /** @param deviceBytes of the receive memory that the GPU has, too. */
  constructor(
    shape: Shape = SHAPE,
    receiveBytes = shape.layers * shape.layerBlockBytes * shape.blocks,
    gpu?: Gpu,
    deviceBytes = receiveBytes,
  ) {
    const { KvMemory, TransferEngine } = loadNative();
    this.shape = shape;
    const { layers, layerGroups, blocks, layerBlockBytes, tokens = 1 } = shape;
    const layerBlock = { heads: 1, tokens, tileTokens: tokens, tileBytes: [layerBlockBytes] };
    const rows = numKvRows(shape);
    this.memory = new KvMemory(rows, blocks, layerBlock, gpu?.SVC_CUDA_DRIVER, gpu?.SVC_CUDA_KERNELS);
    const tcp = { host: '127.0.0.1', port: 0 };
    const options = {
      layerGroups,
      receiveBytes,
      deviceBytes,
      tcp,
      shm: true,
      cudaIpc: 'possible',
      // GPUs copy 16 bytes at a time.
      nccl: gpu?.SVC_NCCL === undefined || shape.layerBlockBytes % 16 !== 0 ? null : tcp,
      ncclLibrary: gpu?.SVC_NCCL ?? '/nowhere/libnccl.so.2',
    } as const;
    this.engine = new TransferEngine(wholeMemory(this.memory.share(), layers), options, (events) => {
      this.events.push(...events);
      for (const resolve of this.#waiting.splice(0)) resolve();
    });
  }

  address(kind: Kind): string {
    return this.engine.endpoints[kind] ?? '';
  }

  /** The first event of this type that `isWanted` takes, past or to come. */
  async event<T extends NativeTransferEvent['type']>(
    type: T,
    isWanted: (event: EventOf<T>) => boolean = () => true,
  ): Promise<EventOf<T>> {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      const found = this.events.find(
        (event): event is EventOf<T> => event.type === type && isWanted(event as EventOf<T>),
      );
      if (found !== undefined) return found;
      await this.#more(deadline, type);
    }
  }

  has(type: NativeTransferEvent['type']): boolean {
    return this.events.some((event) => event.type === type);
  }

  forget(): void {
    this.events.length = 0;
  }

  async link(kind: Kind, address: string, sockets = 2): Promise<number> {
    const link = this.engine.connect(kind, address, sockets);
    await this.event('linkUp', (event) => event.link === link);
    return link;
  }

  /** Fills these blocks of all layers with bytes that follow from `seed`. */
  fill(blocks: readonly number[], seed: number): void {
    for (let layer = 0; layer < this.shape.layers; layer++) {
      for (const block of blocks) this.memory.write(layer, block, pieceOf(this.shape, seed, layer, block));
    }
  }

  /** One step of a prefill: these blocks, from `first` of the transfer on, in all layers. */
  save(send: number, first: number, blocks: readonly number[]): void {
    this.memory.onKvStep(Int32Array.from([send, first, blocks.length, ...blocks]));
    for (let layer = 0; layer < this.shape.layers; layer++) this.memory.onKvLayerSaved(layer);
  }

  /** Lets `count` blocks from index `first` on come to the places that begin at block `place` of the receive memory. */
  receive(ticket: bigint, count: number, first = 0, place = 0): void {
    const bytes = this.shape.layers * this.shape.layerBlockBytes;
    this.engine.openReceive(
      ticket,
      first,
      Float64Array.from({ length: count }, (_, i) => (place + i) * bytes),
    );
  }

  async load(ticket: bigint, blocks: readonly number[], first = 0): Promise<boolean> {
    const load = this.#nextLoad++;
    this.engine.load(load, ticket, first, Int32Array.from(blocks));
    return (await this.event('loaded', (event) => event.load === load)).isIntact;
  }

  /** The bytes of these blocks, [row][block]. */
  read(blocks: readonly number[]): Buffer {
    const pieces = [];
    for (let row = 0; row < numKvRows(this.shape); row++) {
      for (const block of blocks) pieces.push(this.memory.read(row, block));
    }
    return Buffer.concat(pieces);
  }

  close(): void {
    this.engine.close();
  }

  #more(deadline: number, type: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`no ${type} came; there were ${this.events.map((event) => event.type)}`)),
        Math.max(1, deadline - Date.now()),
      );
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

/** Random bytes, the same for the same arguments. */
export function pieceOf({ layerBlockBytes }: Shape, seed: number, layer: number, block: number): Uint8Array {
  const key = Buffer.alloc(16);
  for (const [i, number] of [seed, layer, block].entries()) key.writeUInt32LE(number, i * 4);
  return createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(layerBlockBytes));
}

export function range(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, i) => from + i);
}

/** Makes nodes that are closed after each test of the file. */
export function transferNodes(): (...args: ConstructorParameters<typeof TransferNode>) => TransferNode {
  const nodes: TransferNode[] = [];
  afterEach(() => {
    for (const node of nodes.splice(0)) node.close();
  });
  return (...args) => {
    const node = new TransferNode(...args);
    nodes.push(node);
    return node;
  };
}
