// Loads the native addon and types its whole surface.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CpuIsa } from '../config/cpu-isa.ts';
import { ConfigError, messageOf, NativeAddonError } from '../errors.ts';

/**
 * A tensor in a file whose rows are `rowLength` numbers long, a vector being one row: what is read of it begins at
 * [firstRow, firstCol]. `name` is for errors.
 */
export interface NativeSource {
  readonly name: string;
  readonly path: string;
  readonly byteOffset: number;
  readonly dtype: 'f32' | 'f16' | 'bf16' | 'i8' | 'u8' | 'i2_s' | NativeBlockDType;
  readonly rowLength: number;
  readonly firstRow: number;
  readonly firstCol: number;
  /** Rows of a head whose halves take turns in the file; 0 where all are in order. */
  readonly pairedRows: number;
  /** Rows of the file where a byte has numbers of four rows; 0 where a byte is a number. */
  readonly planeRows: number;
  /** In the place of what the file holds, rows of f32 that follow each other; null where it is to be read. */
  readonly numbers: Float32Array | null;
}

/** Blocks of GGUF, read as numbers or kept as the codes that they hold. */
type NativeBlockDType =
  | `q${4 | 5}_${0 | 1}`
  | 'q8_0'
  | `q${2 | 3 | 4 | 5 | 6}_k`
  | 'iq4_nl'
  | 'iq4_xs'
  | 'mxfp4'
  | `tq${1 | 2}_0`;

/**
 * A published weight [n, k] and its bias [n]; whole numbers, i8 and i2_s, have scales [n, 1] and are kept as int8, as may those of other
 * blocks of numbers from -1 to 1. Bytes of codes, u8, are kept as codes; blocks as theirs, or as numbers.
 */
export interface NativePart {
  readonly weight: NativeSource;
  readonly n: number;
  readonly scales: NativeSource | null;
  readonly codes: NativeCodes | null;
  readonly bias: NativeSource | null;
}

/** What is published beside codes, and where these are in their bytes: `CodesWeightSource` in ops/weights.ts. */
interface NativeCodes {
  readonly order: 'rows' | 'columns' | 'awq';
  /** Added to each byte, modulo 256. */
  readonly offset: number;
  /** [n, groups], as are the zeros. */
  readonly scales: Float32Array;
  readonly zeros: Float32Array | null;
  /** [k] */
  readonly columns: Int32Array | null;
}

interface NativeCodeFormat {
  readonly kind: 'int4' | 'fp4' | 'int8' | 'fp8';
  readonly groupSize: number;
  readonly hasZeros: boolean;
}

/** How the numbers of a weight are kept; k of int8 is at most 65536. */
export type NativeWeightFormat = 'f32' | 'bf16' | 'f16' | 'int8' | NativeBlockDType | NativeCodeFormat;

/** A tensor in the arena: byte offset, rows, columns, distance of rows in elements. */
export type TensorArgs = readonly [offset: number, rows: number, cols: number, stride: number];

/** Of an op among all that were called, from 1. */
export type StreamPosition = number;

type NativeActivation = 'silu' | 'gelu' | 'gelu_tanh' | 'relu' | 'relu2';
type NativeGatedActivation = NativeActivation | 'clamped_swiglu';

/** Only the addon sees into it. */
export interface NativeStageLink {
  readonly isStageLink: never;
}

/**
 * Threads, memory and ops of one backend. Weights, vectors and caches are indices that it gives out.
 * Arguments that do not fit together throw an error with `op`, `expected` and `got`; no call touches memory before.
 * Ops that return their position run later, in the order of the calls: what they fill is there once `await` is true,
 * what they are given may be used again at once.
 */
export interface NativeBackend {
  loadLinear(parts: readonly NativePart[], k: number, format: NativeWeightFormat, splitsK: boolean): number;
  loadGateUp(gate: NativePart, up: NativePart, k: number, format: NativeWeightFormat): number;
  /** Opens an entry of the packed cache, in place of one that is open. Throws where `path` is not a whole one of `key`. */
  openPackedEntry(path: string, key: string): void;
  /** The next weight of the open entry. Throws where it has another name, or its bytes are not as they were written. */
  loadPacked(name: string): number;
  closePackedEntry(): void;
  /**
   * Writes the first weights as an entry, while ops run; `names` are theirs, in order. False where another process is
   * writing the same entry. `close` gives it a few seconds to end, then it fails.
   */
  savePackedEntry(path: string, key: string, names: readonly string[]): Promise<boolean>;
  loadVector(source: NativeSource, length: number): number;
  makeVector(values: Float32Array): number;
  /** Weights by their indices, an expert each; `bias` and `factors` of -1 are none. Fields of routing: ops/experts.ts. */
  makeExperts(
    /** Gate and up in one weight where there is a gate, else up alone. */
    ups: Int32Array,
    downs: Int32Array,
    total: number,
    first: number,
    activation: NativeGatedActivation,
    bias: number,
    factors: number,
    topK: number,
    isSigmoid: boolean,
    groups: number,
    keptGroups: number,
    bestOfGroup: number,
    isNormalized: boolean,
    scale: number,
    /** 0 is none. */
    nearness: number,
    weighsInputs: boolean,
  ): number;
  /** Fields of LoraNumbers: ops/lora.ts. */
  makeLora(
    isHalf: boolean,
    k: number,
    n: number,
    isGateUp: boolean,
    a: Float32Array,
    scales: Float32Array,
    /** [parts, 4] firstColumn, columns, firstRank and ranks of each. */
    parts: Int32Array,
    b: Float32Array,
  ): number;
  /** Ops that were called with it have it until they have run. */
  freeLora(lora: number): void;
  makeKvCache(
    /** [layers] the group of each. */
    layerGroups: Int32Array,
    /** [layers, 2] heads of keys and values of each, and the numbers of one; empty where all have `kvHeads` of `headDim`. */
    layerHeads: Int32Array,
    blocks: number,
    blockSize: number,
    kvHeads: number,
    headDim: number,
    dtype: 'f32' | 'bf16' | 'f16' | 'fp8' | 'int8',
    keysAreValues: boolean,
    /** Numbers that layers without keys and values keep of a sequence: see `StateShape`. */
    stateLayers: number,
    stateSlots: number,
    stateWidth: number,
    /** Whether other processes of this host may be given the memory to read. */
    isShared: boolean,
  ): number;
  /** Waits for all ops. None may be called with it, or with a step of it, any more. */
  freeKvCache(cache: number): void;
  /** Bytes of one row of one block. */
  layerBlockBytes(cache: number): number;
  /** For a shared cache: the token lets one TransferEngine of this process adopt the memory, once. */
  shareKvMemory(cache: number): bigint;
  weightBytes(weight: number): number;
  /** Makes at least `bytes` of the arena usable and returns how many are; tensors in it stay. */
  growArena(bytes: number): number;
  /** Keeps records of at most so many launches. */
  limitGraphs(launches: number): void;
  /** Recorded steps of a device: how many are kept, how often one was launched, and why no more are made, or ''. */
  graphs(): { readonly count: number; readonly replays: number; readonly failure: string };
  close(): void;

  /** That of the last op that was called; 0 before the first. */
  lastPosition(): StreamPosition;
  /** Blocks until the op at `position` has run; false where it has not in so many milliseconds. Throws what an op threw. */
  await(position: StreamPosition, atMost: number): boolean;
  /** Time in which ops ran. */
  busySeconds(): number;
  /** The format of its halves: weights, keys and values are of no other one. */
  half(): 'bf16' | 'f16';
  /** Whether a driver made the machine code of the kernels: then their bits are the driver's. */
  isCompiledByDriver(): boolean;

  linear(weight: number, ...rest: [...x: TensorArgs, ...out: TensorArgs, add: boolean]): StreamPosition;
  gateUp(
    activation: NativeGatedActivation,
    weight: number,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  /** `linear` with what the adapters of the step's rows add: one index a lora in each array. */
  linearLora(
    step: number,
    weight: number,
    adapters: Int32Array,
    loras: Int32Array,
    ...rest: [...x: TensorArgs, ...out: TensorArgs, add: boolean]
  ): StreamPosition;
  gateUpLora(
    step: number,
    activation: NativeGatedActivation,
    weight: number,
    adapters: Int32Array,
    loras: Int32Array,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  activate(
    activation: NativeActivation,
    isHalf: boolean,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  xielu(
    positive: number,
    negative: number,
    linear: number,
    least: number,
    isHalf: boolean,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  gate(
    opening: 'silu' | 'sigmoid' | 'identity',
    isHalfInput: boolean,
    isHalf: boolean,
    ...rest: [...x: TensorArgs, ...gate: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  cast(xIsHalf: boolean, isHalf: boolean, ...rest: [...x: TensorArgs, ...out: TensorArgs]): StreamPosition;
  addScaled(factor: number, ...rest: [...x: TensorArgs, ...residual: TensorArgs]): StreamPosition;
  scale(factor: number, ...x: TensorArgs): StreamPosition;
  softcap(cap: number, ...x: TensorArgs): StreamPosition;
  clip(limit: number, ...x: TensorArgs): StreamPosition;
  scaleColumns(
    isHalf: boolean,
    factors: number,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  sparsify(deviations: number, ...x: TensorArgs): StreamPosition;
  joinStreams(
    least: number,
    ...rest: [...x: TensorArgs, ...others: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  addMixed(
    coefficients: number,
    offset: number,
    width: number,
    ...rest: [...numbers: TensorArgs, ...x: TensorArgs, ...residual: TensorArgs]
  ): StreamPosition;
  headLinear(
    weights: Int32Array,
    width: number,
    keepsRest: boolean,
    isHalf: boolean,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  experts(
    experts: number,
    ...rest: [...logits: TensorArgs, ...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  /**
   * The id -1 - i stands for sampled[i], as it is when the op runs. The weight has the rows of tokens `first` on, of `vocab`; those of
   * others are -0.
   */
  embedding(
    weight: number,
    vocab: number,
    first: number,
    ids: Int32Array,
    sampled: Int32Array,
    ...out: TensorArgs
  ): StreamPosition;
  rmsNorm(
    isHalf: boolean,
    weight: number,
    eps: number,
    groups: number,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  /** `bias` and `factors` of -1 are none. */
  layerNorm(
    isHalf: boolean,
    weight: number,
    bias: number,
    eps: number,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  qkNorm(weight: number, eps: number, ...x: TensorArgs): StreamPosition;
  headLayerNorm(weight: number, headDim: number, eps: number, ...x: TensorArgs): StreamPosition;
  /** Copies the arrays of a step; returns its number, with which ops name it until the next call. */
  beginStep(
    cache: number,
    positions: Int32Array,
    slots: Int32Array,
    numSequences: number,
    queryStarts: Int32Array,
    contextLengths: Int32Array,
    blockTables: Int32Array,
    maxBlocks: number,
    /** See KvMemory.onKvStep; of a cache whose memory is shared. */
    sends: Int32Array,
    /** Of each sequence, -1 for none; empty where no sequence has one. */
    adapters: Int32Array,
    /** See `StateArrays`; not read where the cache has no states. */
    stateSources: Int32Array,
    stateSlots: Int32Array,
    stateSaves: Int32Array,
    stateMoves: Int32Array,
  ): number;
  /** `bias` and `factors` of -1 are none. */
  convolve(
    step: number,
    layer: number,
    first: number,
    weight: number,
    bias: number,
    isSilu: boolean,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  gatedDelta(
    step: number,
    layer: number,
    first: number,
    keyHeads: number,
    keyDim: number,
    heads: number,
    valueDim: number,
    isTiled: boolean,
    rates: number,
    rateBias: number,
    ...rest: [
      ...q: TensorArgs,
      ...k: TensorArgs,
      ...v: TensorArgs,
      ...forgetting: TensorArgs,
      ...writing: TensorArgs,
      ...out: TensorArgs,
    ]
  ): StreamPosition;
  selectiveScan(
    step: number,
    layer: number,
    first: number,
    groups: number,
    stateDim: number,
    heads: number,
    headDim: number,
    rates: number,
    stepBias: number,
    skips: number,
    ...rest: [...x: TensorArgs, ...b: TensorArgs, ...c: TensorArgs, ...steps: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  rope(
    table: number,
    headDim: number,
    first: number,
    rotaryDim: number,
    isInterleaved: boolean,
    step: number,
    ...x: TensorArgs
  ): StreamPosition;
  /** `starts` [rows of out + 1] rise. */
  meanRows(starts: Int32Array, ...rest: [...x: TensorArgs, ...out: TensorArgs]): StreamPosition;
  gatherRows(
    isHalf: boolean,
    rows: Int32Array,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  /** Waits for all ops before it, as `write` does. */
  read(isHalf: boolean, ...rest: [...x: TensorArgs, values: Float32Array]): void;
  /** What another backend sends over it, this one receives: up to `capacity` tensors are on their way. */
  makeStageLink(capacity: number): NativeStageLink;
  sendHidden(...rest: [...x: TensorArgs, link: NativeStageLink]): StreamPosition;
  /** Over a link that this backend made. */
  receiveHidden(...rest: [...out: TensorArgs, link: NativeStageLink]): StreamPosition;
  /** Fills `values` when it runs. */
  readLater(isHalf: boolean, ...rest: [...x: TensorArgs, values: Float32Array]): StreamPosition;
  write(isHalf: boolean, values: Float32Array, ...out: TensorArgs): void;
  storeKv(step: number, layer: number, ...rest: [...k: TensorArgs, ...v: TensorArgs]): StreamPosition;
  /** Both norms -1 are none, and so is `table` -1. */
  prepareHeads(
    step: number,
    layer: number,
    queryNorm: number,
    keyNorm: number,
    eps: number,
    queryTable: number,
    keyTable: number,
    headDim: number,
    first: number,
    rotaryDim: number,
    isInterleaved: boolean,
    ...rest: [...q: TensorArgs, ...k: TensorArgs, ...v: TensorArgs]
  ): StreamPosition;
  /** `window` 0, `chunk` 0, `softcap` 0 and `sinks` -1 are none. */
  attention(
    step: number,
    layer: number,
    isBidirectional: boolean,
    scale: number,
    window: number,
    chunk: number,
    softcap: number,
    sinks: number,
    ...rest: [...q: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  restrictLogits(
    ...rest: [...logits: TensorArgs, rows: Int32Array, starts: Int32Array, ids: Int32Array]
  ): StreamPosition;
  maskLogits(...rest: [...logits: TensorArgs, rows: Int32Array, words: Uint32Array]): StreamPosition;
  editLogits(
    ...rest: [
      ...logits: TensorArgs,
      rows: Int32Array,
      starts: Int32Array,
      ids: Int32Array,
      biases: Float32Array,
      counts: Int32Array,
      repetition: Float32Array,
      frequency: Float32Array,
      presence: Float32Array,
    ]
  ): StreamPosition;
  /** Ids as those of `embedding`; the last four are filled. */
  logprobs(
    ...rest: [
      ...logits: TensorArgs,
      numTop: number,
      rows: Int32Array,
      ids: Int32Array,
      sampled: Int32Array,
      logprobs: Float32Array,
      ranks: Int32Array,
      topIds: Int32Array,
      topLogprobs: Float32Array,
    ]
  ): StreamPosition;
  /** x f32 becomes the sum of the x of all ranks, in all of them. */
  sumRanks(...x: TensorArgs): StreamPosition;
  /** `widths` [ranks] are the columns of each; x may be its own columns of out. Where they are not wanted here, out is x and stays. */
  gatherColumns(
    isHalf: boolean,
    widths: Int32Array,
    isWanted: boolean,
    ...rest: [...x: TensorArgs, ...out: TensorArgs]
  ): StreamPosition;
  /** Fills `tokens` with those of rank 0. */
  shareSampled(tokens: Int32Array): StreamPosition;
  /** Fills `tokens`. */
  sample(
    ...rest: [
      ...logits: TensorArgs,
      temperature: Float32Array,
      topK: Int32Array,
      topP: Float32Array,
      minP: Float32Array,
      uniform: Float64Array,
      tokens: Int32Array,
    ]
  ): StreamPosition;

  /** Bytes a second that all threads together read from memory, the best of `repeats` passes over `bytes`. */
  readBandwidth(bytes: number, repeats: number): number;
  /** Operations a second of the widest multiply-add of the instruction set, all threads, the best of `repeats`. */
  matrixPeak(repeats: number, isInt8: boolean): number;
  /** Seconds that handing an empty op to all threads takes. */
  forkJoinSeconds(repeats: number): number;
}

/** How keys and values lie in a layer block: sections one after the other, each [heads][tiles of `tileTokens` tokens]. */
export interface NativeLayerBlockShape {
  readonly heads: number;
  /** Of a block. */
  readonly tokens: number;
  readonly tileTokens: number;
  /** [sections] Bytes of a tile. */
  readonly tileBytes: readonly number[];
}

/** One part of the KV memory of an instance: the layers and the heads that it holds. */
export interface NativeKvPart {
  /** Of `share` or `shareKvMemory`; can be used once. */
  readonly token: bigint;
  readonly layers: { readonly first: number; readonly end: number };
  readonly heads: { readonly first: number; readonly end: number };
}

/** How blocks of two instances are cut into pieces: the heads into `shards` of one size, the tokens into runs of `tokens`. */
export interface NativeCut {
  readonly shards: number;
  readonly tokens: number;
}

/** KV memory without a backend: what tests and instances without a model move. Layer blocks are [layer][block]. */
export interface NativeKvMemory {
  /** See NativeBackend.shareKvMemory. */
  share(): bigint;
  /**
   * Which blocks this step completes: entries `[sendId, firstIndex, count, block * count]` one after the other, where
   * `firstIndex` is the index of the first block in the transfer.
   */
  onKvStep(sends: Int32Array): void;
  /** `layer` of all blocks of this step is stored; layers come in order, each step anew. */
  onKvLayerSaved(layer: number): void;
  write(layer: number, block: number, bytes: Uint8Array): void;
  read(layer: number, block: number): Uint8Array;
}

export type NativeTransferEvent =
  | { readonly type: 'linkUp'; readonly link: number }
  | { readonly type: 'linkDown'; readonly link: number; readonly reason: string }
  /** Everything of this send has been handed to the other side. */
  | { readonly type: 'sent'; readonly send: number }
  /** Nothing reads the blocks of this send any more. */
  | { readonly type: 'sendClosed'; readonly send: number }
  /** All pieces have come and are what was sent. */
  | { readonly type: 'received'; readonly ticket: bigint }
  /** A piece is not what was sent, as it came (the rest goes on) or as it was copied. */
  | { readonly type: 'corrupt'; readonly ticket: bigint }
  /** Nothing writes into its places or reads them any more. */
  | { readonly type: 'receiveClosed'; readonly ticket: bigint }
  /** Nothing writes into the blocks any more; whether they are filled with what was sent. */
  | { readonly type: 'loaded'; readonly load: number; readonly isIntact: boolean };

interface NativeTransferOptions {
  /** [layers] The group of layers that shares blocks, of each; left out, all are of one. */
  readonly layerGroups?: readonly number[] | undefined;
  /** Bytes of the receive memory. */
  readonly receiveBytes: number;
  /** Address of the TCP listener, port 0 for any; null for none. */
  readonly tcp: { readonly host: string; readonly port: number } | null;
  /** Whether to listen for instances of this host. */
  readonly shm: boolean;
  /** Whether to listen for other GPUs of this host: where that cannot be, `required` throws. Left out, no. */
  readonly cudaIpc?: 'required' | 'possible' | 'no';
  /** Address of the listener for GPUs that send over NCCL, port 0 for any; it throws where NCCL is not there. Left out, or null for none. */
  readonly nccl?: { readonly host: string; readonly port: number } | null;
  /** A file. Links over NCCL need it. */
  readonly ncclLibrary?: string;
  /** Of each communicator; 0 leaves them to NCCL. */
  readonly ncclChannels?: number;
  /**
   * What of the receive memory, from its beginning, has memory of GPUs for what comes from others: each has room for its part of the
   * same blocks. Left out, nothing.
   */
  readonly deviceBytes?: number;
}

export type Transport = 'shm' | 'tcp' | 'cuda-ipc' | 'nccl';

/**
 * Moves pieces of blocks between the KV memories of instances, on threads of its own. One JavaScript thread owns it; `onEvents`
 * is called there with what has happened, until `close`. It does not keep the process alive.
 */
export interface NativeTransferEngine {
  /** What peers connect to; null where not listened. The name of shm lies in the abstract namespace. */
  readonly endpoints: {
    readonly shm: string | null;
    readonly tcp: string | null;
    readonly 'cuda-ipc'?: string;
    readonly nccl?: string;
  };

  /**
   * Begins to connect; `linkUp` or `linkDown` follows. `sockets` is for tcp, for each part.
   * @param cut of this instance's blocks and the peer's; left out, the peer's memory is in parts as this one's
   * @returns the link.
   */
  connect(kind: Transport, address: string, sockets: number, cut?: NativeCut): number;
  disconnect(link: number): void;

  /**
   * A transfer of `numBlocks` blocks, which leave as they are saved. `send` is the caller's number.
   * @param groups [blocks] the group of layers of each; left out, all are of the first
   */
  openSend(send: number, numBlocks: number, groups?: Uint8Array): void;
  /**
   * Sends runs of tokens of the link's cut over `link`, from index `first` of the transfer up to `end`, those saved so far and those to
   * come; from the beginning where called again. Where blocks are not cut a run is a block. `end` left out, all.
   */
  grant(send: number, link: number, ticket: bigint, first: number, end?: number): void;
  /** `sendClosed` follows. */
  closeSend(send: number): void;

  /**
   * Lets blocks `firstBlock` .. `firstBlock + offsets.length` of a transfer come into the receive memory, all layers of a block one
   * after the other. The last block has `lastTokens` tokens; left out, all.
   * @param groups as of `openSend`, of these blocks
   */
  openReceive(
    ticket: bigint,
    firstBlock: number,
    offsets: Float64Array,
    lastTokens?: number,
    groups?: Uint8Array,
  ): void;
  /** Pieces that have come so far. */
  progress(ticket: bigint): number;
  /** Ends its loads; `receiveClosed` follows: nothing writes into its places or reads them any more. */
  closeReceive(ticket: bigint): void;
  /**
   * Copies blocks from index `firstBlock` of the transfer on into `blocks` of the KV memory, as they come. `loaded` follows
   * when all of the transfer has come and is copied, when a piece was damaged since it came (after `corrupt`), or when
   * the receive is closed; nothing writes into `blocks` from then on.
   */
  load(load: number, ticket: bigint, firstBlock: number, blocks: Int32Array): void;

  readonly bytesSent: number;
  bytesSentOver(kind: Transport): number;
  readonly bytesReceived: number;
  /** Ends the threads; nothing may be called after it. */
  close(): void;
}

/** The GPU that CudaBackend computes on, as it is now. */
export interface NativeCudaDevice {
  readonly missing?: undefined;
  /** GPUs that the driver shows. */
  readonly count: number;
  readonly name: string;
  /** Major * 10 + minor: 90 is Hopper. */
  readonly computeCapability: number;
  /** The newest CUDA that the driver takes the code of: 13020 is 13.2. */
  readonly driverVersion: number;
  readonly freeBytes: number;
  readonly totalBytes: number;
}

interface NativeCudaMissing {
  /** Why there is no GPU to compute on, and what to do. */
  readonly missing: string;
}

export interface Native {
  /** `driver`: in memory of the GPU of that driver library. */
  readonly KvMemory: new (
    layers: number,
    blocks: number,
    /** A number of bytes is that of one head and one token. */
    layerBlock: number | NativeLayerBlockShape,
    driver?: string,
    kernels?: string,
    /** Of those that the driver shows; left out, the first. */
    gpu?: number,
  ) => NativeKvMemory;
  readonly TransferEngine: new (
    parts: readonly NativeKvPart[],
    options: NativeTransferOptions,
    onEvents: (events: readonly NativeTransferEvent[]) => void,
  ) => NativeTransferEngine;
  /** CRC-32C of bytes. */
  crc32c(bytes: Uint8Array): number;
  /** Bytes a second that one thread copies from memory to memory. */
  copyBandwidth(bytes: number): number;
  /**
   * Bytes a second over plain TCP sockets on the loopback, out of and into `memoryBytes` of memory a socket; it holds
   * the calling thread that long.
   */
  socketBandwidth(bytes: number, memoryBytes: number, sockets: number): number;
  /**
   * Thread i is bound to processor `cpus[i % length]`; left out, to none. Among ranks it has a group, and is the only one of its rank
   * there.
   */
  readonly CpuBackend: new (
    isa: CpuIsa,
    threads: number,
    cpus?: Int32Array,
    group?: bigint,
    rank?: number,
  ) => NativeBackend;
  /** A group of 2, 4 or 8 ranks: the token is good on all threads of the process, until `breakRankGroup`. */
  createRankGroup(size: number, deadlineMs: number): bigint;
  /** Ops of its ranks that wait for others, and those that come, throw an error with `isRanksBroken` that says why. */
  breakRankGroup(group: bigint, why: string): void;
  /**
   * On one of the GPUs that the driver shows; the files are a library and compiled kernels. Throws where there is none to compute on, and where ranks have
   * no NCCL.
   */
  readonly CudaBackend: new (
    driver: string,
    kernels: string,
    gpu: number,
    usesGraphs: boolean,
    schedulesDecode: boolean,
    schedulesPrefill: boolean,
    /** `nccl` is a file. Left out, the backend is alone. */
    ranks?: { readonly group: bigint; readonly rank: number; readonly nccl: string },
  ) => NativeBackend;
  cudaDevice(
    driver: string,
    gpu: number,
  ): NativeCudaDevice | (NativeCudaMissing & { readonly hasDriver: boolean });
  /** The compiler of kernels in a library: `version` is that of its toolkit, `13.0`. */
  nvrtc(library: string): { readonly missing?: undefined; readonly version: string } | NativeCudaMissing;
  /** Machine code of `source`, which includes `headers`, each [name, text]. Throws what the compiler says. */
  compileCuda(
    library: string,
    source: string,
    headers: readonly (readonly [string, string])[],
    options: readonly string[],
  ): Buffer;
  /** What this processor can run, the best first. */
  instructionSets(): CpuIsa[];
  /** Physical cores that this process may use. */
  physicalCores(): number;
}

const BUILT_ADDON = fileURLToPath(new URL('../../native/build/svc.node', import.meta.url));

/**
 * Loads the addon that `npm run build` made, or the one that SVC_NATIVE_ADDON names.
 * @throws NativeAddonError saying what to do when it is not there or does not load, ConfigError when that is the one that was named.
 */
export function loadNative(): Native {
  const path = addonPath();
  if (!existsSync(path)) {
    throw unusable(
      'where there is no file',
      `the native addon is not built (no ${path}); install make and g++ and run \`npm run build\``,
    );
  }
  const addon = requireAddon(path);
  if (isNative(addon)) return addon;
  throw unusable('which is of another version', `${path} is of another version; run \`npm run build\``);
}

/** The file that `loadNative` loads. */
export function addonPath(): string {
  return namedAddon() ?? BUILT_ADDON;
}

function namedAddon(): string | null {
  const { SVC_NATIVE_ADDON: named } = process.env;
  return named ? resolve(named) : null;
}

/** Plain TypeScript may take the place of what is not built, never that of a file that somebody names. */
function unusable(fault: string, unlessNamed: string, cause?: unknown): NativeAddonError | ConfigError {
  const named = namedAddon();
  if (named === null) return new NativeAddonError(unlessNamed, { cause });
  return new ConfigError(
    `SVC_NATIVE_ADDON names ${named}, ${fault}: give the file of a build of the native addon, or unset the variable`,
    { param: 'SVC_NATIVE_ADDON', cause },
  );
}

/** NVIDIA's library, or the one that SVC_CUDA_DRIVER names. */
export function cudaDriver(): string {
  return process.env.SVC_CUDA_DRIVER ?? 'libcuda.so.1';
}

/** NVIDIA's library, or the one that SVC_NCCL names. */
export function ncclLibrary(): string {
  return process.env.SVC_NCCL ?? 'libnccl.so.2';
}

/** The kernels that `npm run build` makes where nvcc is, beside the addon. */
export function builtCudaKernels(): string {
  return join(dirname(addonPath()), 'cuda-kernels.fatbin');
}

/** SHA-256 of the addon, in hex: another build may do everything in another way. */
export function addonDigest(): string {
  return createHash('sha256').update(readFileSync(addonPath())).digest('hex');
}

/**
 * The addon, or null where it is not built or does not load.
 * @throws ConfigError as `loadNative`.
 */
export function probeNative(): Native | null {
  try {
    return loadNative();
  } catch (error) {
    if (error instanceof NativeAddonError) return null;
    throw error;
  }
}

/**
 * The instruction set to compute with: `wanted`, or the best one.
 * @throws ConfigError when this processor lacks it.
 */
export function chooseIsa(native: Native, wanted: CpuIsa | null): CpuIsa {
  const available = native.instructionSets();
  if (wanted === null) return available[0]!;
  if (!available.includes(wanted)) {
    throw new ConfigError(
      `--cpu-isa ${wanted} is an instruction set that this processor lacks; it has ${available.join(', ')}`,
      { param: 'cpu-isa' },
    );
  }
  return wanted;
}

/**
 * Threads to compute with: `wanted`, or one a physical core.
 * @throws ConfigError when it is no whole number from 1 to 1024.
 */
export function chooseThreads(native: Native, wanted: number | null): number {
  if (wanted === null) return native.physicalCores();
  if (!Number.isInteger(wanted) || wanted < 1 || wanted > 1024) {
    throw new ConfigError(`the number of threads must be from 1 to 1024, got ${wanted}`, {
      param: 'num-threads',
    });
  }
  return wanted;
}

function requireAddon(path: string): unknown {
  try {
    return createRequire(import.meta.url)(path);
  } catch (error) {
    const reason = messageOf(error);
    throw unusable(
      `which does not load (${reason})`,
      `the native addon does not load (${reason}); delete native/build and run \`npm run build\``,
      error,
    );
  }
}

function isNative(value: unknown): value is Native {
  if (typeof value !== 'object' || value === null) return false;
  const names = [
    'CpuBackend',
    'CudaBackend',
    'KvMemory',
    'TransferEngine',
    'crc32c',
    'breakRankGroup',
    'compileCuda',
    'createRankGroup',
    'cudaDevice',
    'instructionSets',
    'nvrtc',
    'physicalCores',
  ];
  return names.every((name) => typeof Reflect.get(value, name) === 'function');
}
