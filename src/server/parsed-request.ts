// A request that generates, after all checks: what the engine is to run, and who writes the answer.

import type { PreparedRequest } from '../engine/inference-engine.ts';
import type { BeamSearchParams } from '../sampling/beam-search-params.ts';
import type { ResponseWriter } from './response-writer.ts';

/** Nothing of it can be refused any more. */
export interface ParsedRequest {
  /** Of the answer. */
  readonly id: string;
  readonly prompts: readonly PreparedRequest[];
  /** Null samples. */
  readonly beamSearch: BeamSearchParams | null;
  /** The answer repeats the prompt and adds nothing. */
  readonly isEchoOnly: boolean;
  readonly isStream: boolean;
  /** The stream says which tokens each event was made of. */
  readonly keepsJournal: boolean;
  readonly writer: ResponseWriter;
}
