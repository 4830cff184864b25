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
  /** Names what determines the bytes of answers: where it is the same, the same request and seed give the same. */
  readonly system_fingerprint: string;
}

/** `data: {"id":…,"choices":`: made once a stream, so that a token costs one small JSON text. */
export function chunkHead(object: string, { id, created, model, system_fingerprint }: AnswerHead): string {
  const fields = JSON.stringify({ id, object, created, model, system_fingerprint });
  return `data: ${fields.slice(0, -1)},"choices":`;
}

/** With include_usage every chunk has the field: null until the usage is known. */
export function usageField(usage: Usage | null, { includeUsage }: Generation): string {
  if (usage !== null) return `,"usage":${JSON.stringify(usage)}`;
  return includeUsage ? ',"usage":null' : '';
}
