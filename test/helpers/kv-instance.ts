// An instance of disaggregated serving without a model: real KV memory, a real connector, and an engine that "computes"
// a prompt by writing bytes that follow from its tokens. Several fit into one process.

import { setTimeout as sleep } from 'node:timers/promises';
import type { KvTransferConfig } from '../../src/config/kv-transfer-config.ts';
import type {
  KvCompatibility,
  KvPartPlace,
  KvTransferCommand,
  Range,
  RequestTransfer,
  SequenceTransfer,
  TransferRequest,
} from '../../src/kv-transfer/connector.ts';
import { DEADLINES, type Deadlines } from '../../src/kv-transfer/p2p/deadlines.ts';
import { P2pConnector } from '../../src/kv-transfer/p2p/p2p-connector.ts';
import { loadNative } from '../../src/native/native.ts';
import type { NativeKvMemory, NativeLayerBlockShape } from '../../src/native/native-transfer.ts';
import { freePort } from './svc-process.ts';

export function kvTransferConfig(more: Partial<KvTransferConfig>): KvTransferConfig {
  return {
    role: 'kv_consumer',
    ip: '127.0.0.1',
    port: 14579,
    bufferBytes: 1e6,
    poolBytes: 2 ** 20,
    sendType: 'PUT_ASYNC',
    transport: 'auto',
    ncclChannels: 8,
    proxy: null,
    httpPort: null,
    secret: null,
    ...more,
  };
}

/** Small enough that a test takes milliseconds. */
export const COMPATIBILITY: KvCompatibility = {
  model: 'test',
  isa: 'test',
  dtype: 'bf16',
  kvDType: 'bf16',
  weightFormat: 'bf16',
  blockSize: 4,
  windows: [null],
  layers: 3,
  heads: 4,
  layerBlockBytes: 512,
};
/** As that of a processor lies, but for the size of its tiles: keys, then values. */
const TILE_BYTES = 64;
export const LAYER_BLOCK: NativeLayerBlockShape = {
  heads: 4,
  tokens: 4,
  tileTokens: 4,
  tileBytes: [64, 64],
};
/** KV memory in one part. */
export const WHOLE: KvPartPlace = {
  layers: { first: 0, end: COMPATIBILITY.layers },
  heads: { first: 0, end: COMPATIBILITY.heads },
};
/** Of the KV memory of each instance. */
export const NUM_BLOCKS = 512;
export const SLOT_BYTES = COMPATIBILITY.layers * COMPATIBILITY.layerBlockBytes;

export interface KvInstanceOptions extends Partial<KvTransferConfig> {
  readonly compatibility?: Partial<KvCompatibility>;
  /** Ranks, each with its heads. */
  readonly degree?: number;
  /** Tokens of a block: a multiple of four. */
  readonly blockSize?: number;
  readonly deadlines?: Partial<Deadlines>;
  /** The KV memory of each rank is that of a GPU whose driver and kernels SVC_CUDA_DRIVER and SVC_CUDA_KERNELS name. */
  readonly isOnGpu?: boolean;
  /** Bytes that are left for blocks which come. */
  readonly receiveRoom?: number;
}

/** The bytes that every instance computes for one block of one layer of a prompt, in these heads. */
export function expectedLayerBlock(
  prompt: readonly number[],
  layer: number,
  index: number,
  { heads, blockSize }: { readonly heads: Range; readonly blockSize: number } = {
    ...WHOLE,
    ...COMPATIBILITY,
    heads: WHOLE.heads,
  },
): Buffer {
  const { tileBytes, tileTokens } = LAYER_BLOCK;
  const tiles = blockSize / tileTokens;
  const pieces: Buffer[] = [];
  for (const [section, bytes] of tileBytes.entries()) {
    for (let head = heads.first; head < heads.end; head += 1) {
      for (let tile = index * tiles; tile < (index + 1) * tiles; tile += 1) {
        const tokens = prompt.slice(0, (tile + 1) * tileTokens);
        const about = [layer, section, head].reduce((sum, number) => sum * 31 + number + 1, 7919);
        pieces.push(
          randomBytesAfter(
            tokens.reduce((sum, token) => (sum * 31 + token) >>> 0, about),
            bytes,
          ),
        );
      }
    }
  }
  return Buffer.concat(pieces);
}

function randomBytesAfter(seed: number, count: number): Buffer {
  let state = seed;
  return Buffer.from(
    Array.from({ length: count }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state >>> 24;
    }),
  );
}

interface Part {
  readonly memory: NativeKvMemory;
  readonly heads: Range;
}

export class KvInstance {
  readonly connector: P2pConnector;
  readonly config: KvTransferConfig;
  readonly commands: KvTransferCommand[] = [];
  readonly warnings: readonly string[];
  readonly #waiting: Waiting;
  readonly #blockSize: number;
  readonly #parts: readonly Part[];
  readonly #free: number[];

  private constructor(
    connector: P2pConnector,
    config: KvTransferConfig,
    { parts, blockSize }: { readonly parts: readonly Part[]; readonly blockSize: number },
    heard: { readonly commands: KvTransferCommand[]; readonly warnings: string[]; readonly waiting: Waiting },
  ) {
    this.connector = connector;
    this.config = config;
    this.commands = heard.commands;
    this.warnings = heard.warnings;
    this.#waiting = heard.waiting;
    this.#parts = parts;
    this.#blockSize = blockSize;
    this.#free = Array.from({ length: NUM_BLOCKS }, (_, block) => block);
  }

  static async start({
    compatibility,
    deadlines,
    isOnGpu = false,
    receiveRoom = 2 ** 30,
    degree = 1,
    blockSize = COMPATIBILITY.blockSize,
    ...given
  }: KvInstanceOptions = {}): Promise<KvInstance> {
    const config = kvTransferConfig({ port: await freePort(), ...given });
    const { KvMemory } = loadNative();
    const { layers } = COMPATIBILITY;
    const { SVC_CUDA_DRIVER, SVC_CUDA_KERNELS } = process.env;
    const parts = Array.from({ length: degree }, (_, rank) => {
      const heads = COMPATIBILITY.heads / degree;
      const layerBlock = { ...LAYER_BLOCK, heads, tokens: blockSize };
      const memory = isOnGpu
        ? new KvMemory(layers, NUM_BLOCKS, layerBlock, SVC_CUDA_DRIVER, SVC_CUDA_KERNELS, rank)
        : new KvMemory(layers, NUM_BLOCKS, layerBlock);
      return { memory, heads: { first: rank * heads, end: (rank + 1) * heads } };
    });
    const layerBlockBytes = (COMPATIBILITY.layerBlockBytes / COMPATIBILITY.blockSize) * blockSize;
    const heard = { commands: [] as KvTransferCommand[], warnings: [] as string[], waiting: new Waiting() };
    const context = {
      compatibility: { ...COMPATIBILITY, blockSize, layerBlockBytes, ...compatibility },
      parts: parts.map(({ memory, heads }) => ({ ...WHOLE, heads, token: memory.share() })),
      engine: {
        applyTransfer: (command: KvTransferCommand) => {
          heard.commands.push(command);
          heard.waiting.hear(command);
        },
      },
      receiveRoom,
      isOnGpu,
      warn: (message: string) => void heard.warnings.push(message),
    };
    const connector = await P2pConnector.start(config, context, { ...DEADLINES, ...deadlines });
    return new KvInstance(connector, config, { parts, blockSize }, heard);
  }

  get address(): string {
    return `${this.config.ip}:${this.config.port}`;
  }

  get stats(): P2pConnector['stats'] {
    return this.connector.stats;
  }

  /** Blocks for a prompt; the last one is for the answer. */
  takeBlocks(prompt: readonly number[]): number[] {
    const count = Math.ceil((prompt.length + 1) / this.#blockSize);
    const blocks = this.#free.splice(0, count);
    if (blocks.length < count) throw new Error('the test has run out of blocks');
    return blocks;
  }

  giveBlocks(blocks: readonly number[]): void {
    this.#free.push(...blocks);
  }

  get numFreeBlocks(): number {
    return this.#free.length;
  }

  open(requestId: string, prompt: readonly number[], more: Partial<Opened> = {}): RequestTransfer | null {
    const defaults = { extraKeys: [], promptIndex: 0, numSamples: 1, maxTokens: null, mayLoad: true };
    return this.connector.open({ requestId, promptTokenIds: prompt, ...defaults, ...more });
  }

  /** Computes blocks `first` .. `end` of a prompt in one step, layer by layer, and notifies of those that `send` covers. */
  computeStep(
    send: SequenceTransfer | null,
    prompt: readonly number[],
    blocks: readonly number[],
    first: number,
    end: number,
  ): void {
    const isSent = send?.kind === 'send';
    const last = isSent ? Math.min(end, Math.ceil(send.numTokens / this.#blockSize)) : 0;
    const saved = blocks.slice(first, last);
    for (const { memory, heads } of this.#parts) {
      if (isSent && saved.length > 0) {
        memory.onKvStep(Int32Array.of(send.transferId, first, saved.length, ...saved));
      }
      for (let layer = 0; layer < COMPATIBILITY.layers; layer += 1) {
        for (let index = first; index < end; index += 1) {
          memory.write(layer, blocks[index]!, this.#expected(prompt, layer, index, heads));
        }
        if (isSent && saved.length > 0) memory.onKvLayerSaved(layer);
      }
    }
  }

  /** Computes a whole prompt in steps of `chunk` blocks. */
  async compute(
    send: SequenceTransfer | null,
    prompt: readonly number[],
    blocks: readonly number[],
    chunk = 2,
  ) {
    for (let first = 0; first < blocks.length; first += chunk) {
      this.computeStep(send, prompt, blocks, first, Math.min(blocks.length, first + chunk));
      await sleep(0);
    }
  }

  /** Whether the blocks hold what P computed for the first `numTokens` tokens. */
  holds(prompt: readonly number[], blocks: readonly number[], numTokens: number, firstBlock = 0): boolean {
    const numTiles = Math.ceil(numTokens / LAYER_BLOCK.tileTokens);
    const tiles = this.#blockSize / LAYER_BLOCK.tileTokens;
    for (let index = firstBlock; index * tiles < numTiles; index += 1) {
      for (let layer = 0; layer < COMPATIBILITY.layers; layer += 1) {
        for (const { memory, heads } of this.#parts) {
          const [have, want] = [
            memory.read(layer, blocks[index]!),
            this.#expected(prompt, layer, index, heads),
          ];
          const numFilled = Math.min(tiles, numTiles - index * tiles);
          for (let at = 0; at < have.length; at += TILE_BYTES) {
            const isFilled = (at / TILE_BYTES) % tiles < numFilled;
            if (
              isFilled &&
              Buffer.compare(have.subarray(at, at + TILE_BYTES), want.subarray(at, at + TILE_BYTES)) !== 0
            ) {
              return false;
            }
          }
        }
      }
    }
    return true;
  }

  #expected(prompt: readonly number[], layer: number, index: number, heads: Range): Buffer {
    return expectedLayerBlock(prompt, layer, index, { heads, blockSize: this.#blockSize });
  }

  /** The commands for one sequence. */
  commandsOf(sequence: SequenceTransfer | null | undefined): KvTransferCommand[] {
    return this.commands.filter(({ transferId }) => transferId === sequence?.transferId);
  }

  /** Resolves with the tokens that came for a load. */
  async loaded({ transferId }: SequenceTransfer): Promise<number> {
    const command = await this.#waiting.first('loaded', transferId);
    return command.kind === 'loaded' ? command.numTokens : 0;
  }

  /** Resolves when the blocks of a send are free. */
  async released({ transferId }: SequenceTransfer): Promise<void> {
    await this.#waiting.first('release', transferId);
  }

  /** Every layer of these blocks, one layer after the other, as one rank would have them. */
  readBlocks(blocks: readonly number[]): Uint8Array {
    const layers = Array.from({ length: COMPATIBILITY.layers }, (_, layer) => layer);
    return Buffer.concat(
      layers.flatMap((layer) =>
        blocks.flatMap((block) => bySections(this.#parts.map(({ memory }) => memory.read(layer, block)))),
      ),
    );
  }

  async close(): Promise<void> {
    await this.connector.close();
  }
}

/** Layer blocks of ranks: the keys of all, then the values of all. */
function bySections(layerBlocks: readonly Uint8Array[]): Uint8Array[] {
  const numSections = LAYER_BLOCK.tileBytes.length;
  return Array.from({ length: numSections }, (_, section) => section).flatMap((section) =>
    layerBlocks.map((bytes) => {
      const size = bytes.length / numSections;
      return bytes.subarray(section * size, (section + 1) * size);
    }),
  );
}

interface Opened {
  readonly extraKeys: TransferRequest['extraKeys'];
  readonly promptIndex: number;
  readonly numSamples: number;
  readonly maxTokens: number | null;
  readonly mayLoad: boolean;
}

/** Commands that somebody waits for, or has not waited for yet. */
class Waiting {
  readonly #heard = new Map<string, KvTransferCommand>();
  readonly #wanted = new Map<string, (command: KvTransferCommand) => void>();

  hear(command: KvTransferCommand): void {
    const name = `${command.kind} ${command.transferId}`;
    this.#heard.set(name, command);
    this.#wanted.get(name)?.(command);
  }

  first(kind: KvTransferCommand['kind'], transferId: number): Promise<KvTransferCommand> {
    const name = `${kind} ${transferId}`;
    const heard = this.#heard.get(name);
    if (heard !== undefined) return Promise.resolve(heard);
    return new Promise((resolve) => this.#wanted.set(name, resolve));
  }
}
