// The engine as the main thread sees it: text in, text out. `LLM` and the HTTP server are its only callers.

import type { SamplingDefaults, SamplingParams } from '../sampling/sampling-params.ts';
import type { ChatTemplate, Tokenizer } from '../tokenizer/tokenizer.ts';

export type FinishReason = 'stop' | 'length' | 'abort';

/** What was chosen at start: shown by the start-up report, GET /version and GET /v1/models. */
export interface EngineInfo {
  readonly model: string;
  readonly architecture: string;
  readonly dtype: string;
  readonly backend: string;
  /** Instruction set and threads: `avx512-bf16, 2 threads`. */
  readonly compute: string;
  readonly weightBytes: number;
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly maxModelLen: number;
  readonly vocabSize: number;
  /** Requests of maxModelLen tokens that fit into the KV cache together. */
  readonly maxConcurrency: number;
}

export interface GenerationRequest {
  /** Unique among the requests in flight. */
  readonly requestId: string;
  readonly prompt:
    | { readonly text: string; readonly addSpecialTokens: boolean }
    | { readonly tokenIds: readonly number[] };
  readonly params: SamplingParams;
}

/** A request that has passed every check and can no longer be refused. */
export interface PreparedRequest {
  readonly requestId: string;
  readonly promptTokenIds: readonly number[];
  readonly params: SamplingParams;
}

/** What one engine step added to one sample of a request. */
export interface OutputDelta {
  /** Which of the n samples. */
  readonly index: number;
  readonly text: string;
  readonly tokenIds: readonly number[];
  /** Null until the last delta of this sample. */
  readonly finish_reason: FinishReason | null;
  readonly stop_reason: number | string | null;
}

export interface EngineStats {
  readonly running: number;
  readonly waiting: number;
  readonly freeBlocks: number;
  readonly numBlocks: number;
}

export interface InferenceEngine {
  readonly info: EngineInfo;
  /** Null with --skip-tokenizer-init: token ids in, token ids out. */
  readonly tokenizer: Tokenizer | null;
  /** Null where the model has none. */
  readonly chatTemplate: ChatTemplate | null;
  /** Sampling defaults of generation_config.json. */
  readonly samplingDefaults: SamplingDefaults;
  /** Resolves when the engine thread has ended by itself: the process should end too. */
  readonly died: Promise<Error>;
  readonly isAlive: boolean;

  /**
   * Tokenises and checks a request.
   * @throws InvalidRequestError when it is empty, too long or out of the vocabulary.
   */
  prepare(request: GenerationRequest): Promise<PreparedRequest>;

  /**
   * Runs a request. Ending the iteration early (break, or an abort of `signal`) frees its KV blocks at once.
   * @throws EngineDeadError when the engine thread ends before the request does.
   */
  generate(request: PreparedRequest, signal?: AbortSignal): AsyncGenerator<OutputDelta, void, undefined>;

  stats(): Promise<EngineStats>;

  /** Aborts what is in flight, ends the engine thread and frees its memory. */
  close(): Promise<void>;
}
