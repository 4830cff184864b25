// A request for text, checked: what the generation routes make of a body, and what answer.ts runs.

import type { PreparedRequest, Ticket } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';
import type { BeamSearchParams } from '../sampling/beam-search-params.ts';

/** Samples of one prompt: as many as the protocol's own service makes. */
const MAX_N = 128;
/** Samples of one request over all its prompts. */
const MAX_CHOICES = 1024;

/** What an answer repeats of its prompt. */
export interface Echo {
  readonly text: string;
  /** Special tokens of the prompt are no part of the text. */
  readonly skipsSpecialTokens: boolean;
}

/** A checked request: nothing of it can be refused any more. */
export interface Generation {
  readonly prompts: readonly PreparedRequest[];
  /** One a prompt, null where nothing is to be repeated. */
  readonly echoes: readonly (Echo | null)[];
  /** The echo alone was asked for: nothing is generated. */
  readonly isEchoOnly: boolean;
  /** Null samples. */
  readonly beamSearch: BeamSearchParams | null;
  readonly returnTokenIds: boolean;
  readonly returnPromptLogprobs: boolean;
  /** Logprobs spell tokens as their ids. */
  readonly areTokensIds: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  /** Usage tells of the prefix cache. */
  readonly showsCachedTokens: boolean;
  /** Streams tell which tokens each event was made of. */
  readonly keepsJournal: boolean;
}

/** What a checked request runs with. */
export interface GenerationRun {
  readonly signal: AbortSignal;
  readonly ticket: Ticket;
}

/** @throws InvalidRequestError where the prompts and samples together are too many. */
export function checkChoices(numPrompts: number, n: number): void {
  if (n > MAX_N) throw new InvalidRequestError(`n must be at most ${MAX_N}, got ${n}`, { param: 'n' });
  if (numPrompts * n <= MAX_CHOICES) return;
  throw new InvalidRequestError(
    `n times the number of prompts must be at most ${MAX_CHOICES}, got ${n} times ${numPrompts}`,
    { param: 'n' },
  );
}

/** Sequences that the request brings to the engine. */
export function numSequences({ prompts }: Generation): number {
  return prompts.reduce((sum, { params }) => sum + params.n, 0);
}
