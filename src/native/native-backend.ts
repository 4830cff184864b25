// What the addon's backends take and do: weights, memory, and ops on tensors, as native/src/binding/ checks them.

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

/** See `RopeHeads` and `RopeSections`. */
export type RopeArgs = readonly [
  headDim: number,
  first: number,
  rotaryDim: number,
  isInterleaved: boolean,
  lines: number,
  columns: number,
  alternate: boolean,
];

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
  clip(least: number, most: number, ...x: TensorArgs): StreamPosition;
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
    /** [2, tokens], or empty where both are `positions`. */
    planePositions: Int32Array,
    slots: Int32Array,
    numSequences: number,
    queryStarts: Int32Array,
    contextLengths: Int32Array,
    blockTables: Int32Array,
    maxBlocks: number,
    /** Of each sequence 1 where rows see those after them, else 0; empty where none do. */
    bidirectional: Int32Array,
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
  rope(table: number, ...rest: [...heads: RopeArgs, step: number, ...x: TensorArgs]): StreamPosition;
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
    ...rest: [...heads: RopeArgs, ...q: TensorArgs, ...k: TensorArgs, ...v: TensorArgs]
  ): StreamPosition;
  /** `ahead` 0 no rows see those after them, 1 those that the step names, 2 all; `window` 0, `chunk` 0, `softcap` 0 and `sinks` -1 are none. */
  attention(
    step: number,
    layer: number,
    ahead: number,
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
