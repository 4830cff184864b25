// The border between models and hardware: what a backend can do, in the order in which a forward pass uses it.
// A model calls these and knows no backend; a backend implements these and knows no model. `reference/` is the
// plain-TypeScript definition of each op and the oracle for the others.
//
// An op may run later than it is called, always behind those that were called before it: like the commands of a GPU's
// stream. Tensors are what ops give each other; numbers come out of a backend by `read` alone, which waits.
//
// Law of every op (batch invariance): an output row is a function of its own input row, its own sequence's KV
// blocks and the weights only. No sum may be ordered by how many rows or sequences share the call.

import type { Logprobs } from '../sampling/logprobs.ts';
import type { ComputeDType, StorageDType } from './dtype.ts';

/**
 * Activations: `rows` x `cols` numbers, row-major, owned by the backend and freed when the innermost scope that was
 * open when they were made closes. A tensor from `split` is a view: its rows are further apart than its columns are many.
 */
export interface Tensor {
  readonly rows: number;
  readonly cols: number;
  readonly dtype: ComputeDType;
}

/** Where a weight lies: a place in a file, not yet read. */
export interface TensorSource {
  /** The checkpoint's name, for errors: `model.layers.0.mlp.up_proj.weight`. */
  readonly name: string;
  readonly path: string;
  /** Bytes from the beginning of the file. */
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly dtype: StorageDType;
  readonly shape: readonly number[];
}

/** One projection as published: weight [n, k] and, where the model has one, bias [n]. */
export interface LinearPart {
  readonly weight: TensorSource;
  readonly bias: TensorSource | null;
}

/** `out = x · weightᵀ + bias`, packed for the backend: weight [n, k], bias [n]. Several parts stand side by side in n. */
export interface LinearWeight {
  readonly n: number;
  readonly k: number;
  readonly dtype: ComputeDType;
  /** Memory that one use streams through the processor. */
  readonly byteLength: number;
}

/** Gate and up projections packed together, each [n, k], so that `silu(gate) * up` needs no second pass. */
export interface GatedWeight {
  readonly n: number;
  readonly k: number;
  readonly dtype: ComputeDType;
  readonly byteLength: number;
}

/** A vector of f32 kept by the backend: norm weights, rope tables. */
export interface Vector {
  readonly length: number;
}

export interface KvCacheShape {
  readonly layers: number;
  readonly blocks: number;
  /** Tokens a block: a multiple of 16. */
  readonly blockSize: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly dtype: ComputeDType;
}

/**
 * The paged KV memory of all layers. One block of one layer is one contiguous piece of `blockBytes` bytes that
 * holds its keys, then its values; the order inside is the backend's own.
 */
export interface KvCache {
  readonly shape: KvCacheShape;
  readonly blockBytes: number;
}

/** Tells the transfer engine of this process which blocks a step has computed, from inside the step. */
export interface KvFeed {
  /** Lets one transfer engine adopt the KV memory. */
  readonly token: bigint;
  /** Which blocks this step completes: `[sendId, firstIndex, count, block * count]` one after the other. */
  step(sends: Int32Array): void;
  /** `layer` of all blocks of the step is stored; layers come in order. */
  layer(layer: number): void;
}

/** The sequences of a step: which rows are whose, and where their keys and values lie. */
export interface AttentionBatch {
  readonly numSequences: number;
  /** [numSequences + 1] first row of each sequence in the flattened batch; the last entry is the number of rows. */
  readonly queryStarts: Int32Array;
  /** [numSequences] tokens of the sequence in the cache once this step's tokens are stored. */
  readonly contextLengths: Int32Array;
  /** [numSequences, maxBlocks] block ids in the order of the sequence; entries past its length are not read. */
  readonly blockTables: Int32Array;
  readonly maxBlocks: number;
}

export interface AttentionOptions {
  readonly layer: number;
  /** Factor on q·k before the softmax, usually 1/sqrt(headDim). */
  readonly scale: number;
  /** A token sees itself and the `window - 1` tokens before it; null is all of them. */
  readonly window: number | null;
}

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
  /** Frees its tensors, and those of scopes that were opened inside it. Again, it does nothing. */
  close(): void;
}

export interface Ops {
  readonly backend: 'cpu' | 'reference';
  /** What runs the arithmetic, for the start-up report: `avx512-bf16, 2 threads`. */
  readonly description: string;
  /** Names the kernels: equal bytes hold where they are the same. */
  readonly kernels: string;

  // ── memory that lives as long as the model: what is loaded never looks at its file again ──

  /**
   * Reads [n_i, k] weights (and their [n_i] biases, kept in f32) from their files, one below the other.
   * @throws ModelLoadError, as all that load, where a file is cut off or a number is NaN or infinite.
   */
  loadLinear(parts: readonly LinearPart[], dtype: ComputeDType): LinearWeight;
  loadGated(gate: LinearPart, up: LinearPart, dtype: ComputeDType): GatedWeight;
  loadVector(source: TensorSource): Vector;
  makeVector(values: Float32Array): Vector;
  /** @param isShared whether its feed can be opened */
  makeKvCache(shape: KvCacheShape, isShared?: boolean): KvCache;
  /** @throws ConfigError where the backend cannot transfer its KV memory. */
  openFeed(cache: KvCache): KvFeed;
  /** Time in which ops ran since the start; null where a backend does not measure it. */
  readonly busySeconds: number | null;
  /** Frees weights, KV memory and threads. No op may be called after it. */
  close(): void;

  // ── arithmetic ──

  /** For tensors that outlive a call; whoever opens it closes it. Scopes nest. */
  openScope(): Scope;

  /** Runs `body` in a scope of its own: the tensors made inside are freed when it returns. */
  scope<T>(body: () => T): T;

  /** Its `read` returns when all ops that were called before have run. */
  mark(): Pending<void>;

  /**
   * ids [tokens] -> f32 [tokens, hidden]: rows of a weight [vocab, hidden] without bias, so that one copy serves as
   * embeddings and as output head. Ids must lie in the vocabulary.
   */
  embedding(tokens: TokenIds, table: LinearWeight): Tensor;

  /** x [tokens, cols] f32 -> [tokens, cols] in `dtype`: x / sqrt(mean(x²) + eps) * weight. */
  rmsNorm(x: Tensor, weight: Vector, eps: number, dtype: ComputeDType): Tensor;

  /** Each head of x [tokens, heads * headDim] f32 normalised by itself, in place; weight [headDim]. */
  rmsNormHeads(x: Tensor, weight: Vector, eps: number): void;

  /** x [tokens, k] in the weight's dtype -> f32 [tokens, n]: x · weightᵀ + bias. */
  linear(x: Tensor, weight: LinearWeight): Tensor;

  /** residual [tokens, n] f32 += x · weightᵀ + bias. */
  addLinear(residual: Tensor, x: Tensor, weight: LinearWeight): void;

  /** x [tokens, k] in the weight's dtype -> [tokens, n] in it too: silu(x · gateᵀ + bias) * (x · upᵀ + bias). */
  gatedLinear(x: Tensor, weight: GatedWeight): Tensor;

  /** Views of x [tokens, sum of widths], side by side, without a copy. */
  split(x: Tensor, widths: readonly number[]): Tensor[];

  /**
   * Rotates the first `rotaryDim` numbers (left out: all) of each head of x [tokens, heads * headDim] f32 in place, their
   * first half against their second half. `table` [maxPositions, rotaryDim] holds, a position, rotaryDim/2 cosines and
   * then rotaryDim/2 sines.
   */
  rope(x: Tensor, positions: Int32Array, table: Vector, headDim: number, rotaryDim?: number): void;

  /** k, v [tokens, kvHeads * headDim] f32 -> cache, rounded to its dtype; slot = block * blockSize + offset. */
  storeKv(k: Tensor, v: Tensor, cache: KvCache, layer: number, slotMapping: Int32Array): void;

  /**
   * Causal attention of q [tokens, heads * headDim] f32 over the paged cache, this step's tokens included
   * -> [tokens, heads * headDim] in the cache's dtype. heads is a multiple of kvHeads. The rows of a sequence are
   * the last of its `contextLengths` positions.
   */
  attention(q: Tensor, cache: KvCache, batch: AttentionBatch, options: AttentionOptions): Tensor;

  /** Rows of x, in the order of `rows`, as a new tensor of the same dtype. */
  gatherRows(x: Tensor, rows: Int32Array): Tensor;

  /** logits [rows, vocab] f32: in the given rows every token but the listed ones becomes -Infinity, in place. */
  restrictLogits(logits: Tensor, allowed: IdLists): void;

  /** logits [rows, vocab] f32, changed in place: bias, repetition, frequency, presence, each rounded to f32. */
  editLogits(logits: Tensor, edits: LogitEdits): void;

  /**
   * Log-softmax of `rows` of logits [any, vocab] f32 at `tokens`, one a row, and at the `numTop` largest.
   * numTop is at most vocab.
   */
  logprobs(logits: Tensor, rows: Int32Array, tokens: TokenIds, numTop: number): Pending<Logprobs>;

  /** logits [rows, vocab] f32 -> one token id a row. */
  sample(logits: Tensor, rows: SamplingRows): SampledTokens;

  /** A copy in JavaScript memory, widened to f32, [rows * cols]. */
  read(x: Tensor): Float32Array;

  /** A tensor from JavaScript numbers, rounded to `dtype`. */
  tensor(values: Float32Array, rows: number, cols: number, dtype: ComputeDType): Tensor;
}
