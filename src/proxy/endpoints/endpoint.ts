// One path of the API that the proxy passes on to instances: everything that depends on the form of its requests and of
// its event streams. A further endpoint is one more adapter and a line in endpoints.ts.

import type { SvcError } from '../../errors.ts';
import type { StreamProgress } from '../stream-progress.ts';
import type { PromptShape } from './prompt.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

export interface EndpointAdapter {
  readonly path: string;
  /** Fields of a wrong type are taken for missing: instances refuse them. */
  readRequest(body: JsonObject): RequestTraits;
  /** Fields with which an instance continues a stream; null where the client has nothing of it yet. */
  resumeFields(progress: StreamProgress, numChoices: number): JsonObject | null;
  /** Events are bytes, blank line included; the comment that names the tokens of an event is no part of it. */
  isLastEvent(event: Buffer): boolean;
  /** The HTTP status that an error event names, 0 where it names none; null for every other event. */
  errorStatus(event: Buffer): number | null;
  /** When the answer says that it was created, in Unix seconds. */
  createdAt(event: Buffer): number | null;
  /** The end of a stream that fails after `numEvents` events. */
  failure(error: SvcError, numEvents: number): string;
}

/** What the proxy needs to know of a request. */
export interface RequestTraits {
  readonly isStream: boolean;
  readonly prompt: PromptShape;
  /** Choices in the answer: prompts times samples. */
  readonly numChoices: number;
  /** Fields that make every instance write the same answer; null where the request needs none. */
  readonly addedFields: JsonObject | null;
  /** Fields that replace the client's on a prefill instance; null where the decode instance must compute the prompt. */
  readonly prefillFields: JsonObject | null;
  /** Another instance would write the same stream. */
  readonly isRepeatable: boolean;
}
