// The thread that renders a chat template: one conversation at a time, the others wait their turn. A template may come
// from anywhere, so a rendering that takes too long or too much memory is ended together with its thread.

import type { ContentFormat } from '../config/content-formats.ts';
import { EngineDeadError, InvalidRequestError, OverloadedError, SvcError } from '../errors.ts';
import { CallThread, type CallThreadErrors } from '../util/call-thread.ts';
import type { ChatMessage } from './tokenizer.ts';

/** One conversation. */
export interface RenderOrder {
  readonly messages: readonly ChatMessage[];
  /** All others: JSON. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** A template in place of the thread's own; null without one. */
  readonly source: string | null;
}

/** What the thread is started with. */
export interface RenderThreadData {
  readonly source: string;
  readonly specialTokens: Readonly<Record<string, string>>;
  readonly contentFormat: ContentFormat;
  /** What stands for an image as a line of a text, for templates that write none; null where nothing does. */
  readonly imageLine: string | null;
}

/** Published templates take 4,000 messages in well under a second, the slowest known one in a few. */
export const RENDER_LIMITS = {
  /** How long one rendering may take. */
  timeoutMs: 10_000,
  /** How long it may wait before it starts. */
  waitMs: 30_000,
  /** Of the thread, its compiled template included. */
  memoryMb: 256,
  /** Renderings that may wait. */
  maxQueued: 4096,
};

export type RenderLimits = Readonly<typeof RENDER_LIMITS>;

const RETRY_AFTER_SECONDS = 1;

/** Starts no thread before there is something to render. */
export function openRenderQueue(
  data: RenderThreadData,
  limits: RenderLimits,
): CallThread<RenderOrder, string> {
  const { timeoutMs, waitMs, memoryMb, maxQueued } = limits;
  return new CallThread(new URL('./render-thread', import.meta.url), {
    name: 'svc-template',
    data,
    deadlineMs: timeoutMs,
    waitMs,
    maxWaiting: maxQueued,
    memoryMb,
    errors: errorsOf(limits),
  });
}

function errorsOf({ timeoutMs, waitMs, memoryMb, maxQueued }: RenderLimits): CallThreadErrors {
  return {
    full: () => overloaded(`${maxQueued} conversations wait to be rendered`),
    waitedTooLong: () => overloaded(`the conversation has waited ${waitMs / 1000} seconds to be rendered`),
    late: () => problemError('limit', `rendering takes longer than ${timeoutMs / 1000} seconds`),
    died: (cause) => deathError(cause, memoryMb),
    closed: () => new EngineDeadError('the engine has been closed'),
  };
}

function deathError(cause: unknown, memoryMb: number): Error {
  const error = cause instanceof Error ? cause : new Error('it has ended');
  if ('code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return problemError('limit', `rendering takes more than ${memoryMb} MiB of memory`);
  }
  return new SvcError(`the thread that renders chat templates does not run: ${error.message}`, { cause });
}

const VERBS = { refusal: 'refuses', failure: 'fails on', limit: 'goes beyond a limit with' };

/** Why there is no text: the template's author says no, it fails, or a limit was reached. */
export function problemError(kind: keyof typeof VERBS, reason: string): InvalidRequestError {
  return new InvalidRequestError(`the chat template ${VERBS[kind]} these messages: ${reason}`, {
    param: 'messages',
  });
}

function overloaded(what: string): OverloadedError {
  return new OverloadedError(`The server is full: ${what}; try again later`, {
    retryAfter: RETRY_AFTER_SECONDS,
  });
}
