// What the answers of both generation endpoints have in common: what a format must be able to write, and the parts of
// chunks that are the same. `CompletionFormat` and `ChatFormat` are built on it.

import type { OutputDelta } from '../engine/inference-engine.ts';
import type { Generation } from './generation.ts';
import type { Usage } from './protocol/usage.ts';
import type { Sample } from './samples.ts';

/** How an endpoint writes its answers. */
export interface AnswerFormat {
  /** Events for what was added to a choice; `usage` is that of the choice so far, where it was asked for. */
  events(choice: number, delta: OutputDelta, isFirst: boolean, usage: Usage | null): string;
  usageEvent(usage: Usage): string;
  body(samples: readonly Sample[], usage: Usage): object;
}

/** What every chunk and the body carry. */
export interface AnswerHead {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
}

/** `data: {"id":…,"choices":`: made once a stream, so that a token costs one small JSON text. */
export function chunkHead(object: string, { id, created, model }: AnswerHead): string {
  const fields = JSON.stringify({ id, object, created, model });
  return `data: ${fields.slice(0, -1)},"choices":`;
}

/** Chunks name only what they set. */
export function usageJson({ prompt_tokens_details: details, ...counts }: Usage): string {
  return JSON.stringify(details === null ? counts : { ...counts, prompt_tokens_details: details });
}

/** With include_usage every chunk has the field: null until the usage is known. */
export function usageField(usage: Usage | null, { includeUsage }: Generation): string {
  if (usage !== null) return `,"usage":${usageJson(usage)}`;
  return includeUsage ? ',"usage":null' : '';
}
