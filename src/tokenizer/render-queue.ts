// The main thread's end of the thread that renders: one conversation at a time, the others wait their turn. A template
// may come from anywhere, so a rendering that takes too long or too much memory is ended together with its thread, and
// the next one gets a new thread.

import type { Worker } from 'node:worker_threads';
import { EngineDeadError, InvalidRequestError, OverloadedError, SvcError } from '../errors.ts';
import { startThread } from '../util/start-thread.ts';
import type { FromRenderThread, RenderProblem, RenderThreadData, Variables } from './render-messages.ts';

export interface RenderLimits {
  /** How long one rendering may take. */
  readonly timeoutMs: number;
  /** How long it may wait before it starts. */
  readonly waitMs: number;
  /** Of the thread, its compiled template included. */
  readonly memoryMb: number;
  /** Renderings that may wait. */
  readonly maxQueued: number;
}

/** Published templates take 4,000 messages in well under a second, the slowest known one in a few. */
export const RENDER_LIMITS: RenderLimits = {
  timeoutMs: 10_000,
  waitMs: 30_000,
  memoryMb: 256,
  maxQueued: 4096,
};

const RETRY_AFTER_SECONDS = 1;

interface Job {
  readonly variables: Variables;
  readonly resolve: (text: string) => void;
  readonly reject: (error: Error) => void;
  timer: NodeJS.Timeout;
}

/** A thread, and whether it has said that it takes work. */
interface Thread {
  readonly worker: Worker;
  isReady: boolean;
}

export class RenderQueue {
  readonly #source: string;
  readonly #limits: RenderLimits;
  readonly #waiting: Job[] = [];
  #running: Job | null = null;
  #thread: Thread | null = null;
  #isClosed = false;

  /** Starts no thread before there is something to render. */
  constructor(source: string, limits: RenderLimits = RENDER_LIMITS) {
    this.#source = source;
    this.#limits = limits;
  }

  /**
   * @throws InvalidRequestError where the template refuses, fails or goes beyond a limit.
   * @throws OverloadedError where too many wait, or this one has waited too long.
   */
  render(variables: Variables): Promise<string> {
    if (this.#isClosed) return Promise.reject(closedError());
    if (this.#waiting.length >= this.#limits.maxQueued) {
      return Promise.reject(overloaded(`${this.#waiting.length} conversations wait to be rendered`));
    }
    return new Promise((resolve, reject) => {
      const job: Job = {
        variables,
        resolve,
        reject,
        timer: setTimeout(() => this.#giveUpWaiting(job), this.#limits.waitMs),
      };
      this.#waiting.push(job);
      this.#next();
    });
  }

  /** Ends the thread; renderings in flight are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const job of this.#waiting.splice(0)) fail(job, closedError());
    await this.#endThread(closedError());
  }

  #next(): void {
    if (this.#running === null && this.#waiting.length > 0) {
      this.#thread ??= this.#start();
      if (this.#thread.isReady) this.#run(this.#thread.worker, this.#waiting.shift()!);
    }
    // Only work that somebody waits for keeps the process.
    if (this.#running === null && this.#waiting.length === 0) this.#thread?.worker.unref();
    else this.#thread?.worker.ref();
  }

  #run(worker: Worker, job: Job): void {
    clearTimeout(job.timer);
    try {
      worker.postMessage(job.variables);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      fail(job, invalid(`the messages and variables of a chat must be JSON: ${reason}`, cause));
      this.#next();
      return;
    }
    this.#running = job;
    job.timer = setTimeout(() => {
      const late = `rendering takes longer than ${this.#limits.timeoutMs / 1000} seconds`;
      void this.#endThread(problemError({ kind: 'limit', reason: late }));
    }, this.#limits.timeoutMs);
  }

  #start(): Thread {
    const data: RenderThreadData = { source: this.#source };
    const worker = startThread(new URL('./render-thread', import.meta.url), {
      name: 'svc-template',
      data,
      memoryMb: this.#limits.memoryMb,
    });
    const thread: Thread = { worker, isReady: false };
    worker.on('message', (message: FromRenderThread) => this.#receive(thread, message));
    worker.on('error', (error) => this.#lose(thread, error));
    worker.on('exit', () => this.#lose(thread, new Error('it has ended')));
    return thread;
  }

  #receive(thread: Thread, message: FromRenderThread): void {
    if (this.#thread !== thread) return;
    const job = this.#running;
    if (message.type === 'ready') thread.isReady = true;
    else if (job !== null) {
      this.#running = null;
      if (message.type === 'problem') fail(job, problemError(message.problem));
      else {
        clearTimeout(job.timer);
        job.resolve(message.text);
      }
    }
    this.#next();
  }

  /** The thread has ended by itself: out of memory, or it could not even start. */
  #lose(thread: Thread, error: Error): void {
    if (this.#thread !== thread) return;
    const job = this.#running ?? this.#waiting.shift();
    this.#thread = null;
    this.#running = null;
    if (job !== undefined) fail(job, this.#lossError(error));
    this.#next();
  }

  #lossError(error: Error): Error {
    if ('code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
      return problemError({
        kind: 'limit',
        reason: `rendering takes more than ${this.#limits.memoryMb} MiB of memory`,
      });
    }
    return new SvcError(`the thread that renders chat templates does not run: ${error.message}`, {
      cause: error,
    });
  }

  async #endThread(error: Error): Promise<void> {
    const thread = this.#thread;
    const job = this.#running;
    this.#thread = null;
    this.#running = null;
    if (job !== null) fail(job, error);
    await thread?.worker.terminate();
    this.#next();
  }

  #giveUpWaiting(job: Job): void {
    this.#waiting.splice(this.#waiting.indexOf(job), 1);
    const seconds = this.#limits.waitMs / 1000;
    fail(job, overloaded(`the conversation has waited ${seconds} seconds to be rendered`));
  }
}

function fail(job: Job, error: Error): void {
  clearTimeout(job.timer);
  job.reject(error);
}

const VERBS = { refusal: 'refuses', failure: 'fails on', limit: 'goes beyond a limit with' };

function problemError({ kind, reason }: RenderProblem): InvalidRequestError {
  return invalid(`the chat template ${VERBS[kind]} these messages: ${reason}`);
}

function invalid(message: string, cause?: unknown): InvalidRequestError {
  return new InvalidRequestError(message, { param: 'messages', cause });
}

function overloaded(what: string): OverloadedError {
  return new OverloadedError(`The server is full: ${what}; try again later`, {
    retryAfter: RETRY_AFTER_SECONDS,
  });
}

function closedError(): EngineDeadError {
  return new EngineDeadError('the engine has been closed');
}
