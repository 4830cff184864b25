// What the engine core needs of whatever runs the model: steps in, results out. Only plain data crosses this border, so
// that the model may run in this thread (`ModelRunner`), or in several others that each hold a part of it.

import type { KvCompatibility, KvMemoryPart } from '../kv-transfer/connector.ts';
import type { AdapterSpec, LoadedAdapter } from '../models/adapters/load-adapter.ts';
import type { PoolingConfig } from '../models/pooling/pooling-config.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import type { EncoderCosts, ScheduledStep, StepResult, TileWork } from '../scheduler/scheduled-step.ts';
import type { Proposer } from '../speculation/proposer.ts';

/** What one rank, or stage, computes with, and what it has in memory. */
export interface RankMemory {
  /** Instruction set and threads: `avx512-bf16, 2 threads`. */
  readonly compute: string;
  readonly weightBytes: number;
  readonly kvCacheBytes: number;
}

/** What was loaded and chosen at start: shown by the start-up report, GET /version and GET /v1/models. */
export interface EngineInfo {
  readonly model: string;
  readonly architecture: string;
  /** What is computed in. */
  readonly dtype: string;
  /** Of keys and values: that of `dtype`, `fp8` or `int8`. */
  readonly kvDType: string;
  /** Names of the formats of its layers' weights: that of `dtype`, `int8`, `int4-g32`; joined by + where there are several. */
  readonly weightFormat: string;
  readonly backend: string;
  /** Whether it computes on a device with memory of its own. */
  readonly isOnGpu: boolean;
  /** Equal bytes hold where these are the same: an instruction set, or `reference`. */
  readonly isa: string;
  /** SHA-256 of the model's configuration and of samples of its weights, in hex. */
  readonly modelFingerprint: string;
  /** Instruction set and threads, of all ranks: `avx512-bf16, 2 threads`. */
  readonly compute: string;
  /** One where the model is in one piece. */
  readonly ranks: readonly RankMemory[];
  readonly backendReason: string;
  /** Over all ranks. */
  readonly weightBytes: number;
  /** Whether no weight had to be packed. */
  readonly isFromPackedCache: boolean;
  readonly numBlocks: number;
  readonly blockSize: number;
  /** [groups of layers] So many tokens, itself included, does a token see; null is all. Those that see furthest come first. */
  readonly windows: readonly (number | null)[];
  /** Blocks of a transfer that hold states; 0 where no layer keeps any, or nothing goes to other instances. */
  readonly stateBlocks: number;
  /** Longest context that LongRoPE does not stretch; null without LongRoPE. */
  readonly shortContext: number | null;
  readonly maxModelLen: number;
  /** Sequences that may run at the same time. */
  readonly maxNumSeqs: number;
  /** States that are kept for prompts that begin alike; null where no layer keeps a state of a sequence. */
  readonly numSnapshots: number | null;
  /** Of what sees images; null where the model reads only text. */
  readonly encoderCosts: EncoderCosts | null;
  /** Most tokens of an image where those see each other, so that one step computes all of them; null where it need not. */
  readonly wholeImageTokens: number | null;
  /** Null where it generates. */
  readonly pooling: PoolingConfig | null;
  /** Whether a prompt is computed in one step, of any length. */
  readonly computesWholePrompts: boolean;
  readonly vocabSize: number;
  /** Requests of maxModelLen tokens that fit into the KV cache together. */
  readonly maxConcurrency: number;
  /** Bytes of the host's memory that are left for blocks of other instances, those that it receives in memory of GPUs not counted. */
  readonly receiveRoom: number;
  /** What an instance must have in common with this one to exchange KV blocks; null where none are exchanged. */
  readonly kvCompatibility: KvCompatibility | null;
}

/** Computes steps in the order in which they come. For each of them `forward` is called, then `sample`, then `read`. */
export interface Executor {
  readonly info: EngineInfo;
  /** The KV memory, for the transfer engine; empty where no KV blocks are exchanged. */
  readonly kvParts: readonly KvMemoryPart[];
  /** Guesses tokens for drafts; null where no draft model is configured. */
  readonly draftModel: Proposer | null;
  /** Seconds spent in forward passes and sampling since the start; null where a backend does not measure it. */
  readonly busySeconds: number | null;
  /** Sees parts of images, and waits for them. */
  see(work: readonly TileWork[]): void;
  /**
   * Starts the forward pass of `step` after the steps before it, which need not have been read.
   * @param planPoint share of the layers, from 0 to 1, after which `awaitPlanPoint` returns
   */
  forward(step: ScheduledStep, planPoint: number): void;
  /**
   * Starts the sampling of the step, or the pooling, whose forward pass was started last.
   * @param edits how its logits are changed before: one entry for each row that samples, those of a sequence together; null
   *   leaves them as they are
   */
  sample(edits: readonly (RowEdits | null)[]): void;
  /** Waits until the oldest step that has not been read is computed up to its plan point; returns where there is none. */
  awaitPlanPoint(): void;
  read(): StepResult;
  /** Those of the configuration; their ids are their places. */
  readonly adapters: readonly LoadedAdapter[];
  /**
   * Loads a part of an adapter at each turn; sequences may name it once the generator has returned.
   * @throws ModelLoadError, at some turn, naming what is wrong with it.
   */
  loadAdapter(spec: AdapterSpec): Generator<void, LoadedAdapter, void>;
  /** No later step has a sequence that names it. */
  unloadAdapter(adapterId: number): void;
  /** Frees the model, its KV memory and its threads. */
  close(): void;
}
