// The border between models and hardware: what a backend can do, in the order in which a forward pass uses it.
// A model calls these and knows no backend; a backend implements these and knows no model. `reference/` is the
// plain-TypeScript definition of each op and the oracle for the others.
//
// An op may run later than it is called, but always after the ops that were called before it: like the commands of a
// GPU's stream. Ops pass tensors to each other; only `read` gives numbers to JavaScript, and it waits.
//
// Law of every op (batch invariance): an output row is a function of its own input row, its own sequence's KV
// blocks and the weights only. No sum may be ordered by how many rows or sequences share the call.

import type { Logprobs } from '../sampling/logprobs.ts';
import type { Activation, GatedActivation, Xielu } from './activation.ts';
import type { ComputeDType, HalfDType, KvDType, WeightFormat } from './dtype.ts';
import type { Expert, ExpertRange, Experts, Routing } from './experts.ts';
import type { AdapterLora, Lora, LoraNumbers } from './lora.ts';
import type { PackedWeights } from './packed-weights.ts';
import type { RankPlace } from './ranks.ts';
import type { Convolution, DeltaRule, SelectiveScan, StateArrays, StateShape } from './states.ts';
import type { GateUpWeight, LinearPart, LinearWeight, TensorSource, Vector } from './weights.ts';

/**
 * Activations: `rows` x `cols` numbers, row-major, owned by the backend and freed when the innermost scope that was
 * open when they were made closes. A tensor from `split` is a view: its rows are further apart than its columns are many.
 */
export interface Tensor {
  readonly rows: number;
  readonly cols: number;
  readonly dtype: ComputeDType;
}

/** Heads of keys and values of a layer, and the numbers of one. */
export interface KvHeads {
  readonly kvHeads: number;
  readonly headDim: number;
}

export interface KvCacheShape extends KvHeads {
  readonly layers: number;
  readonly blocks: number;
  /** Tokens a block: a multiple of 16. */
  readonly blockSize: number;
  readonly dtype: KvDType;
  /** Whether values are the keys themselves, as in latent attention: only keys are kept. Left out, false. */
  readonly keysAreValues?: boolean;
  /**
   * [layers] which group each layer is of, from 0. Layers of a group share block tables, and a block holds the keys and values of
   * one group: it has a row for each layer of the largest one. Left out: all layers are one group.
   */
  readonly layerGroups?: readonly number[];
  /**
   * [layers] where layers have other heads than each other. A row holds one layer of those with the most numbers, or as many neighbours
   * of a group as have no more together, if their heads are the same. Left out: all have `kvHeads` of `headDim`.
   */
  readonly layerHeads?: readonly KvHeads[] | undefined;
  /** Of layers that keep a state in the place of keys and values, which `layers` does not count. Left out: there are none. */
  readonly states?: StateShape | undefined;
}

/**
 * The paged KV memory of all layers, and their states. A layer block, one row of one block, is `layerBlockBytes` contiguous bytes: the
 * keys of a layer, then its values where they are others, or those of several layers; the order inside is the backend's own.
 */
export interface KvCache {
  readonly shape: KvCacheShape;
  readonly layerBlockBytes: number;
  /** Frees the memory, once the ops so far have run. No op may be called with it, or with a step of it, any more. */
  free(): void;
}

/** The sequences of a step: which rows belong to which sequence, and which blocks hold its keys and values. */
export interface AttentionBatch {
  readonly numSequences: number;
  /** [numSequences + 1] first row of each sequence in the flattened batch; the last entry is the number of rows. */
  readonly queryStarts: Int32Array;
  /** [numSequences] tokens of the sequence in the cache once this step's tokens are stored. */
  readonly contextLengths: Int32Array;
  /**
   * [groups, numSequences, maxBlocks] block ids in the order of the sequence. Entries past its length are not read; nor are those
   * of tokens that no window reaches, but they are ids all the same.
   */
  readonly blockTables: Int32Array;
  readonly maxBlocks: number;
  /** [numSequences] 1 where the tokens of a sequence also see those after them, else 0. Left out where none do. */
  readonly bidirectional?: Int32Array | undefined;
}

/** Of a token whose keys and values are not kept, and of a sequence whose state is not: a row that fills a batch up. */
export const NO_SLOT = -1;

/** The arrays of one step over the flattened batch, the tokens of all sequences in a row. */
export interface StepArrays {
  /** [tokens] the row of the tables of `rope` that turns each token: its position, from 0, unless the model has several tables. */
  readonly positions: Int32Array;
  /** [2, tokens] the same for pairs of numbers that turn by line, and by column: see `RopeSections`. Left out, both are `positions`. */
  readonly planePositions?: Int32Array | undefined;
  /** [groups, tokens] where its keys and values go: block * blockSize + offset, or NO_SLOT. */
  readonly slotMapping: Int32Array;
  readonly batch: AttentionBatch;
  /**
   * The blocks that the step completes for other instances, `[transfer, first index in it, count, block * count]` one after
   * the other: `storeKv` of a layer lets them leave. Left out where there are none.
   */
  readonly sends?: Int32Array | undefined;
  /** [numSequences] the adapter that computes each sequence, or NO_ADAPTER. Left out where the model alone computes all. */
  readonly adapters?: Int32Array | undefined;
  /** Not read where the cache has no states; left out only there. */
  readonly states?: StateArrays | undefined;
}

/**
 * The backend's copy of the arrays of one step, in the memory where its kernels read them. The backend owns it: it is
 * valid until the next `beginStep`, and ops that were called with it before that still run with it.
 */
export interface StepInputs {
  readonly numTokens: number;
  /** The KV memory that the slots and block tables index. */
  readonly cache: KvCache;
  /** Those that compute some sequence. */
  readonly adapters: ReadonlySet<number>;
}

/** What the adapters of a step add to one product. */
export interface StepLoras {
  readonly step: StepInputs;
  /** At most one an adapter. Adapters that compute no row of the step add nothing. */
  readonly loras: readonly AdapterLora[];
}

export interface AttentionOptions {
  readonly layer: number;
  /** Factor on q·k before the softmax, above 0, usually 1/sqrt(headDim). */
  readonly scale: number;
  /** A token sees itself and the `window - 1` tokens before it, and as many after it where it sees any; null is all of them. */
  readonly window: number | null;
  /** Of those a token sees what is not before the last multiple of `chunk`; left out or null, all. Not where any sees those after it. */
  readonly chunk?: number | null;
  /** Above 0: each score s = scale * q·k becomes softcap * tanh(s / softcap) before the softmax. */
  readonly softcap?: number | null;
  /** Whether each token also sees those after it, of the `contextLengths` of its sequence; left out, those do that the batch names. */
  readonly isBidirectional?: boolean | undefined;
  /** [heads] Attention sinks: one more score in the softmax of each head, without a value, so that its weights sum to less than 1. */
  readonly sinks?: Vector | null;
}

/** Heads of x [tokens, heads * headDim], and what of them is rotated. */
export interface RopeHeads {
  readonly headDim: number;
  /** The first of a head's numbers that is rotated; left out, 0. */
  readonly first?: number;
  /** So many numbers of each head; left out, all. */
  readonly rotaryDim?: number;
  /** Pairs are (2i, 2i + 1); left out, (i, i + rotaryDim / 2). */
  readonly isInterleaved?: boolean;
  /** Left out, all pairs turn by `positions`. */
  readonly sections?: RopeSections | undefined;
}

/** How many pairs of a head turn by the line of a token in a plane, and by its column, which are in `planePositions`; the others by `positions`. */
export interface RopeSections {
  readonly lines: number;
  readonly columns: number;
  /** Pair 3i + 1 is of the lines and 3i + 2 of the columns, from the first ones on; else the others come first, then lines, then columns. */
  readonly alternate: boolean;
}

/** Of each head of queries and of keys, both [headDim]. */
export interface HeadNorms {
  readonly query: Vector;
  readonly key: Vector;
  readonly eps: number;
}

/** What becomes of the heads of queries and keys before attention. */
export interface HeadPreparation {
  readonly layer: number;
  /** As by `qkNorm`; left out, none. */
  readonly norms?: HeadNorms | undefined;
  /** As by `rope`, with a table for queries and one for keys, which may be the same; left out, none. */
  readonly rotation?:
    | { readonly queries: Vector; readonly keys: Vector; readonly heads: RopeHeads }
    | undefined;
}

/** What the tokens of a step bring to a delta rule, all f32. */
export interface DeltaTokens {
  /** [tokens, keyHeads * keyDim] */
  readonly q: Tensor;
  readonly k: Tensor;
  /** [tokens, heads * valueDim] */
  readonly v: Tensor;
  /** [tokens, heads] */
  readonly forgetting: Tensor;
  readonly writing: Tensor;
}

/** What the tokens of a step bring to a selective scan, all f32. */
export interface ScanTokens {
  /** [tokens, heads * headDim] */
  readonly x: Tensor;
  /** [tokens, groups * stateDim]: how x is written into the state, and how it is read. */
  readonly b: Tensor;
  readonly c: Tensor;
  /** [tokens, heads] */
  readonly steps: Tensor;
}

/** How streams of numbers, each `width` wide and side by side in a row, are added to others: the factors are the token's own. */
export interface StreamMix {
  readonly width: number;
  /** [outputs, inputs, numbers a token]: a factor is the product with the token's numbers, plus `offset`. */
  readonly coefficients: Vector;
  readonly offset: number;
}

/** Most streams that are mixed, and that come of it. */
export const MOST_STREAMS = 8;

/** What lets numbers through: x * sigmoid(x), sigmoid(x), x. */
export type Gate = 'silu' | 'sigmoid' | 'identity';

/** In the place of a token where a logit is NaN or +Infinity: -Infinity alone is a token that is forbidden. */
export const NO_TOKEN = -1;

/** What an op computes for JavaScript. */
export interface Pending<T> {
  /** Waits until the op has run. Throws what made an op fail. */
  read(): T;
}

/** One token id a row of logits; `NO_TOKEN` where none could be sampled. Ops take it for token 0. */
export type SampledTokens = Pending<Int32Array>;

/** Token ids of which some may still be being sampled: the id -1 - i stands for the token of row i of `sampled`. */
export interface TokenIds {
  readonly ids: Int32Array;
  readonly sampled: SampledTokens | null;
}

/** Which tokens of the vocabulary a table has rows for, where a rank has a part of them. */
export interface VocabularyRange {
  readonly first: number;
  /** Of all ranks. */
  readonly total: number;
}

/** One entry a row of logits. */
export interface SamplingRows {
  /** 0 takes the largest logit (the lowest id among equals) and ignores the rest. */
  readonly temperature: Float32Array;
  /** Keep the k largest logits, and all that equal the k-th; 0 keeps all. */
  readonly topK: Int32Array;
  /** Keep the most probable tokens until their sum reaches p; 1 keeps all. At least one is kept. */
  readonly topP: Float32Array;
  /** Drop tokens less probable than minP times the most probable; 0 keeps all. */
  readonly minP: Float32Array;
  /** Number in [0, 1) that picks among what is left: the first id at which the running sum exceeds it. */
  readonly uniform: Float64Array;
}

/** Ids listed row by row: those of rows[i] are ids[starts[i]] up to ids[starts[i + 1] - 1]. */
export interface IdLists {
  /** [n] rows of logits, each once. */
  readonly rows: Int32Array;
  /** [n + 1] */
  readonly starts: Int32Array;
  readonly ids: Int32Array;
}

/** The tokens that rows may sample, as sets of bits. */
export interface TokenMasks {
  /** [n] rows of logits, each once. */
  readonly rows: Int32Array;
  /** [n, ceil(vocab / 32)] Bit i % 32 of word i / 32 is set where token i may be sampled; bits past the vocabulary are not read. */
  readonly words: Uint32Array;
}

/** Changes of single logits; an id may come twice in a row, its changes follow each other. */
export interface LogitEdits extends IdLists {
  /** One a listed id: added first; -Infinity forbids the token. */
  readonly biases: Float32Array;
  /** One a listed id: how often the answer has it; -1 is a token that no penalty touches. */
  readonly counts: Int32Array;
  /** [n] A count of 0 or more divides a positive logit by this and multiplies a negative one. */
  readonly repetition: Float32Array;
  /** [n] Taken off once a count. */
  readonly frequency: Float32Array;
  /** [n] Taken off once where the count is above 0. */
  readonly presence: Float32Array;
}

/** Owns the tensors that are made while it is the innermost open scope. */
export interface Scope {
  /** Frees its tensors, and those of scopes that were opened inside it. Idempotent. */
  close(): void;
}

/** Memory that only a device has, as it is now, in bytes. */
export interface DeviceMemory {
  readonly totalBytes: number;
  /** By this backend, since it was opened. */
  readonly takenBytes: number;
  /** What recorded steps, and arrays that steps bring along, may still take. */
  readonly reservedBytes: number;
}

/** Carries hidden states from the backend of one stage to that of the next, in order. */
export interface StageLink {
  /** So many steps may be on their way. */
  readonly capacity: number;
}

export interface Ops {
  readonly backend: 'cpu' | 'cuda' | 'reference';
  /** The hardware that runs the arithmetic, for the start-up report: `avx512-bf16, 2 threads`. */
  readonly description: string;
  /** Instruction set of the kernels: their results are equal to the bit only to those of the same one. */
  readonly isa: string;

  /** The format of its numbers of 16 bits: none of its tensors, weights and caches has another one. */
  readonly half: HalfDType;

  /** Where it is among the ranks of one model. All of them run the same ops in the same order. */
  readonly ranks: RankPlace;

  // ── memory that lives as long as the model: what is loaded never looks at its file again ──

  /**
   * Reads [n_i, k] weights (and their [n_i] biases, kept in f32) from their files, one below the other, and keeps them
   * in `format`.
   * @param splitsK whether a device with more cores than the columns keep busy may sum ranges of k side by side. It is the weight's
   *   for good, since it orders its sums.
   * @throws ModelLoadError, as all that load, where a file is cut off or a number is NaN or infinite.
   */
  loadLinear(parts: readonly LinearPart[], format: WeightFormat, splitsK?: boolean): LinearWeight;
  loadGateUp(gate: LinearPart, up: LinearPart, format: WeightFormat): GateUpWeight;
  /** Where weights can be taken from and written to as they are packed; null where a backend packs nothing. */
  readonly packedWeights: PackedWeights | null;
  loadVector(source: TensorSource): Vector;
  makeVector(values: Float32Array): Vector;
  /**
   * Weights that are loaded already as the experts of a layer.
   * @param range which of all experts they are; left out, all
   * @throws ShapeError where they differ in shape or format, or the routing asks for experts that are not there.
   */
  makeExperts(
    experts: readonly Expert[],
    routing: Routing,
    activation: GatedActivation,
    range?: ExpertRange,
  ): Experts;
  /** @throws ModelLoadError where a number is NaN or infinite. */
  makeLora(numbers: LoraNumbers): Lora;
  /** @param isShared whether `shareKvMemory` may be called for it */
  makeKvCache(shape: KvCacheShape, isShared?: boolean): KvCache;
  /**
   * A token with which one transfer engine of this process can adopt the memory of a cache, once.
   * @throws ConfigError where the backend cannot transfer its KV memory.
   */
  shareKvMemory(cache: KvCache): bigint;
  /** Bytes that weights and KV memory may still take. */
  freeMemory(): number;
  /** Null where the backend computes in memory of the host. */
  deviceMemory(): DeviceMemory | null;
  /** Time in which ops ran since the start; null where a backend does not measure it. */
  readonly busySeconds: number | null;
  /** Frees weights, KV memory and threads. No op may be called after it. */
  close(): void;

  /**
   * So many sequences a step of so many single tokens should have, at least theirs: where launches are recorded, few batch sizes come again and
   * again. The rows that fill it up are computed like others, and nobody reads them.
   */
  paddedBatch(numSequences: number): number;
  /** What a person should know of the device since the last call; null where there is nothing. */
  takeWarning(): string | null;

  // ── arithmetic ──

  /** For tensors that outlive a call; whoever opens it closes it. Scopes nest. */
  openScope(): Scope;

  /** Runs `body` in a scope of its own: the tensors made inside are freed when it returns. */
  scope<T>(body: () => T): T;

  /** Its `read` returns when all ops that were called before have run. */
  mark(): Pending<void>;

  /**
   * ids [tokens] -> f32 [tokens, hidden]: rows of a weight [vocab, hidden] without bias, so that one copy serves as
   * embeddings and as output head. Ids must lie in the vocabulary. Where the table has a `range` of it, rows of other tokens are -0:
   * the sum of the ranks' has the numbers of the one that has the token.
   */
  embedding(tokens: TokenIds, table: LinearWeight, range?: VocabularyRange): Tensor;

  /**
   * x [tokens, cols] f32 -> [tokens, cols] in `dtype`: x / sqrt(mean(x²) + eps) * weight.
   * @param groups of columns side by side, of one size, each by itself; left out, 1
   */
  rmsNorm(x: Tensor, weight: Vector, eps: number, dtype: ComputeDType, groups?: number): Tensor;

  /** x [tokens, cols] f32 -> [tokens, cols] in `dtype`: (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias. */
  layerNorm(x: Tensor, weight: Vector, bias: Vector | null, eps: number, dtype: ComputeDType): Tensor;

  /** layerNorm of x [tokens, cols] f32, in place. */
  layerNormInPlace(x: Tensor, weight: Vector, bias: Vector | null, eps: number): void;

  /** rmsNorm of each head of x [tokens, heads * headDim] f32 by itself, in place, as for q and k; weight [headDim]. */
  qkNorm(x: Tensor, weight: Vector, eps: number): void;

  /**
   * layerNorm of each head of x [tokens, heads * headDim] f32 by itself, in place, as for q and k; each head has a row of its
   * own in weight [heads * headDim].
   */
  headLayerNorm(x: Tensor, weight: Vector, headDim: number, eps: number): void;

  /**
   * x [tokens, k] in the weight's inputDType -> f32 [tokens, n]: x · weightᵀ + bias, and what the adapters of its rows add to
   * that. Rows without an adapter have the bits that they have without `loras`.
   */
  linear(x: Tensor, weight: LinearWeight, loras?: StepLoras): Tensor;

  /** residual [tokens, n] f32 += x · weightᵀ + bias, then += what the adapters of its rows add. */
  addLinear(residual: Tensor, x: Tensor, weight: LinearWeight, loras?: StepLoras): void;

  /** x [tokens, k] in the weight's inputDType -> [tokens, n] in it too: activation of x · gateᵀ + bias and x · upᵀ + bias. */
  gateUp(x: Tensor, weight: GateUpWeight, activation: GatedActivation, loras?: StepLoras): Tensor;

  /** x [tokens, cols] f32 -> [tokens, cols] in `dtype`. */
  activate(x: Tensor, activation: Activation, dtype: ComputeDType): Tensor;

  /** The same with an activation of a layer's own. */
  xielu(x: Tensor, factors: Xielu, dtype: ComputeDType): Tensor;

  /** x [tokens, cols], f32 or bf16, and gate [tokens, cols] f32 -> [tokens, cols] in `dtype`: x * opening(gate). */
  gate(x: Tensor, gate: Tensor, opening: Gate, dtype: ComputeDType): Tensor;

  /** x [tokens, cols], f32 or bf16 -> [tokens, cols], rounded to `dtype`. */
  cast(x: Tensor, dtype: ComputeDType): Tensor;

  /** residual [tokens, cols] f32 += x [tokens, cols] f32 * factor. */
  addScaled(residual: Tensor, x: Tensor, factor: number): void;

  /** x [tokens, cols] f32 *= factor. */
  scale(x: Tensor, factor: number): void;

  /** x [tokens, cols] f32 = cap * tanh(x / cap), in place; cap is above 0. */
  softcap(x: Tensor, cap: number): void;

  /** x [tokens, cols] f32 = min(max(x, least), most), in place; least is not above most, and NaN stays. */
  clip(x: Tensor, least: number, most: number): void;

  /** x [tokens, cols] f32 -> [tokens, cols] in `dtype`: each column times its factor. */
  scaleColumns(x: Tensor, factors: Vector, dtype: ComputeDType): Tensor;

  /**
   * x [tokens, cols] f32 = max(0, x - (mean + deviations * standard deviation)), in place, both of the numbers of a row: few are left where
   * `deviations` is large.
   */
  sparsify(x: Tensor, deviations: number): void;

  /**
   * x [tokens, width] f32 and others [tokens, n * width] f32, n streams side by side -> [tokens, (n + 1) * width] f32: x, and each of the
   * others brought to the magnitude of x, times sqrt(mean(x²)) / sqrt(max(mean(other²), least)). `least` is above 0.
   */
  joinStreams(x: Tensor, others: Tensor, least: number): Tensor;

  /**
   * residual [tokens, outputs * width] f32: to stream a is added the sum over the streams b of x [tokens, inputs * width] f32 of
   * f[a, b] * x_b, with f[a, b] = offset + sum over i of coefficients[a, b, i] * numbers[i], numbers [tokens, ...] f32 of the token.
   * x may be the residual itself: all of its streams are taken as they were.
   */
  addMixed(residual: Tensor, x: Tensor, numbers: Tensor, mix: StreamMix): void;

  /**
   * Each head of x [tokens, heads * width], f32 or bf16, by a weight [n, k] of its own -> f32 [tokens, heads * n]: the product
   * of the head's first k numbers, rounded to the weight's inputDType. Where the rest is kept, the head's other numbers
   * are after it. Weights are floats, without biases.
   */
  headLinear(x: Tensor, weights: readonly LinearWeight[], keepsRest: boolean): Tensor;

  /**
   * A mixture of experts: x [tokens, k] in their inputDType -> f32 [tokens, n], the outputs of each token's experts times their
   * weights, summed by groups of ids (`NUM_EXPERT_GROUPS`). logits [tokens, total] f32 are the router's. Of experts that are not here,
   * nothing is added: the sum of the ranks' is that of all.
   */
  experts(x: Tensor, logits: Tensor, experts: Experts): Tensor;

  /** Views of x [tokens, sum of widths], side by side, without a copy. */
  split(x: Tensor, widths: readonly number[]): Tensor[];

  /**
   * Checks the arrays of a step over `cache` and copies them, once for all its layers: the caller may change them
   * afterwards. Ends the step before.
   * @throws ShapeError naming the array, and where in it an index does not fit.
   */
  beginStep(cache: KvCache, arrays: StepArrays): StepInputs;

  /**
   * Rotates pairs of numbers of each head of x [tokens, heads * headDim] f32 in place, pair i by angle i. `table`
   * [maxPositions, rotaryDim] holds, for each position, rotaryDim/2 cosines, then rotaryDim/2 sines.
   */
  rope(x: Tensor, step: StepInputs, table: Vector, heads: RopeHeads): void;

  /**
   * k, v [tokens, kvHeads * headDim] f32 -> the step's slots of a layer of its cache, rounded to the cache's dtype. v is null where
   * the keys of the cache are its values.
   */
  storeKv(k: Tensor, v: Tensor | null, step: StepInputs, layer: number): void;

  /**
   * What attention needs of q [tokens, heads * headDim] and of k and v [tokens, kvHeads * headDim], f32: to the bit, `qkNorm` of q
   * and k, `rope` of both, then `storeKv`. q is changed in place; what k becomes is not told.
   */
  prepareHeads(q: Tensor, k: Tensor, v: Tensor, step: StepInputs, how: HeadPreparation): void;

  /**
   * Attention of q [tokens, heads * headDim] f32 over the step's paged cache, this step's tokens included
   * -> [tokens, heads * headDim] in f32 over a cache of f32, else in bf16. heads is a multiple of kvHeads. The rows of a
   * sequence are the last of its `contextLengths` positions; each sees those up to its own, unless it is told otherwise.
   */
  attention(q: Tensor, step: StepInputs, options: AttentionOptions): Tensor;

  /**
   * x [tokens, channels] f32 -> [tokens, channels] f32: activation(bias + the sum over taps of weight * x), the tokens of a
   * sequence one after the other; before the first one there are zeros.
   */
  convolve(x: Tensor, step: StepInputs, how: Convolution): Tensor;

  /**
   * The gated delta rule (Yang, Kautz and Hatamizadeh, 2024) -> [tokens, heads * valueDim] f32. With the decay
   * d = exp(rate * softplus(forgetting + rateBias)) a token changes the state S to d S + k (v - d kᵀS) sigmoid(writing), and
   * reads qᵀS.
   */
  gatedDelta(tokens: DeltaTokens, step: StepInputs, rule: DeltaRule): Tensor;

  /**
   * The selective scan of Mamba-2 (Dao and Gu, 2024) -> [tokens, heads * headDim] f32. With t = softplus(steps + stepBias) a token
   * changes the state S to exp(rate * t) S + b (t x), and reads cᵀS + skip * x.
   */
  selectiveScan(tokens: ScanTokens, step: StepInputs, scan: SelectiveScan): Tensor;

  /**
   * Means of rows of x [tokens, cols] f32 -> [starts.length - 1, cols]: row i is that of rows starts[i] up to starts[i + 1] - 1,
   * at least one, summed in their order.
   */
  meanRows(x: Tensor, starts: Int32Array): Tensor;

  /** Rows of x, in the order of `rows`, as a new tensor of the same dtype. */
  gatherRows(x: Tensor, rows: Int32Array): Tensor;

  /** A link that this backend receives from, and another one of its kind sends to. */
  makeStageLink(capacity: number): StageLink;

  /** x [tokens, hidden] f32, copied, goes to the stage that `link` belongs to. */
  sendHidden(link: StageLink, x: Tensor): void;

  /**
   * What is sent next over a link of this backend -> f32 [rows, cols]. Where it will never come, since the sender has failed or ended,
   * this op fails. On a GPU `sendHidden` is called before it, and whether the sender has failed only the marks of the sender tell.
   */
  receiveHidden(link: StageLink, rows: number, cols: number): Tensor;

  /** logits [rows, vocab] f32: in the given rows every token but the listed ones becomes -Infinity, in place. */
  restrictLogits(logits: Tensor, allowed: IdLists): void;

  /** logits [rows, vocab] f32: in the given rows every token whose bit is not set becomes -Infinity, in place. */
  maskLogits(logits: Tensor, masks: TokenMasks): void;

  /** logits [rows, vocab] f32, changed in place: bias, repetition, frequency, presence, each rounded to f32. */
  editLogits(logits: Tensor, edits: LogitEdits): void;

  /**
   * Log-softmax of `rows` of logits [any, vocab] f32 at `tokens`, one a row, and at the `numTop` largest.
   * numTop is at most vocab.
   */
  logprobs(logits: Tensor, rows: Int32Array, tokens: TokenIds, numTop: number): Pending<Logprobs>;

  /** logits [rows, vocab] f32 -> one token id a row. */
  sample(logits: Tensor, rows: SamplingRows): SampledTokens;

  // ── between ranks: each waits for the others, and throws RanksBrokenError where one will not come. Alone, none does anything ──

  /** x [tokens, n] f32, in place: the sum of the x of all ranks, in all of them, added as by `sumAsTree`. */
  sumRanks(x: Tensor): void;

  /**
   * x [rows, widths[rank]] of each rank -> [rows, sum of widths] in all of them: side by side, in the order of ranks.
   * @param isWanted whether this rank wants it; else it gets x. Left out, it does.
   */
  gatherColumns(x: Tensor, widths: readonly number[], isWanted?: boolean): Tensor;

  /** x [rows, sum of widths], in place: each rank has made its own columns, and takes those of the others. */
  shareColumns(x: Tensor, widths: readonly number[]): void;

  /** The `count` tokens that rank 0 samples, as a result of every rank. The others give null. */
  shareSampled(tokens: SampledTokens | null, count: number): SampledTokens;

  /** A copy in JavaScript memory, widened to f32, [rows * cols]. */
  read(x: Tensor): Float32Array;

  /** The same, once the ops before it have run: `x` may be freed meanwhile. */
  readLater(x: Tensor): Pending<Float32Array>;

  /** A tensor from JavaScript numbers, rounded to `dtype`. */
  tensor(values: Float32Array, rows: number, cols: number, dtype: ComputeDType): Tensor;
}
