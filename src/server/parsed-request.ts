// A checked request for generation: the prompts that the engine runs, and the writer of its answer.

import type { PreparedRequest, Ticket } from '../engine/inference-engine.ts';
import type { BeamSearchParams } from '../sampling/beam-search-params.ts';
import type { ResponseWriter } from './response-writer.ts';

/** Has passed every check. */
export interface ParsedRequest {
  /** Of the answer. */
  readonly id: string;
  readonly prompts: readonly PreparedRequest[];
  /** Null samples. */
  readonly beamSearch: BeamSearchParams | null;
  /** Samples of which the `n` most probable are the answer; null takes all. */
  readonly bestOf: number | null;
  /** The answer repeats the prompt and adds nothing. */
  readonly isEchoOnly: boolean;
  readonly isStream: boolean;
  /** Tokens of each event of a stream but the first of a choice and the last. */
  readonly streamInterval: number;
  /** The stream says which tokens each event was made of. */
  readonly keepsJournal: boolean;
  readonly writer: ResponseWriter;
}

/** The resources of one running request. */
export interface GenerationRun {
  readonly signal: AbortSignal;
  readonly ticket: Ticket;
}
