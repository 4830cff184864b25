// Decides which tokens of which request are computed in the next step, and what a sampled token changes.
// There is no prefill phase and no decode phase: each request has tokens, some of them computed, and every step
// lets the computed ones catch up under one token budget. The engine core is its only caller.

import { type KvCacheConfig, KvCacheManager } from '../kv-cache/kv-cache-manager.ts';
import type { Logprobs } from '../ops/ops.ts';
import { type NewRequest, Request } from './request.ts';
import { compareUrgency, RequestQueue } from './request-queue.ts';
import type { PromptScoring, ScheduledSequence, ScheduledStep, StepResult } from './scheduled-step.ts';
import { checkStop, type Finish } from './stop-check.ts';

export interface SchedulerConfig extends KvCacheConfig {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
}

/** What a step added to one request. */
export interface TokenOutput {
  readonly requestId: number;
  readonly tokenId: number;
  /** One row; null where nobody asked. */
  readonly logprobs: Logprobs | null;
  /** With the first token: the tokens of the prompt from the second on, in pieces; null where nobody asked. */
  readonly promptLogprobs: readonly Logprobs[] | null;
  /** Prompt tokens that came from the prefix cache. */
  readonly numCachedTokens: number;
  /** Null while the request goes on. */
  readonly finish: Finish | null;
}

export interface SchedulerStats {
  readonly running: number;
  readonly waiting: number;
  readonly freeBlocks: number;
  readonly numBlocks: number;
  readonly preemptions: number;
}

export class Scheduler {
  readonly #config: SchedulerConfig;
  readonly #kvCache: KvCacheManager;
  readonly #requests = new Map<number, Request>();
  readonly #waiting = new RequestQueue();
  /** In the order in which they were admitted. */
  readonly #running: Request[] = [];
  #numAdded = 0;
  #preemptions = 0;

  constructor(config: SchedulerConfig) {
    this.#config = config;
    this.#kvCache = new KvCacheManager(config);
  }

  get hasUnfinished(): boolean {
    return this.#requests.size > 0;
  }

  get stats(): SchedulerStats {
    return {
      running: this.#running.length,
      waiting: this.#waiting.length,
      freeBlocks: this.#kvCache.numFreeBlocks,
      numBlocks: this.#kvCache.numBlocks,
      preemptions: this.#preemptions,
    };
  }

  add(newRequest: NewRequest): void {
    const request = new Request(newRequest, this.#numAdded++);
    this.#requests.set(request.id, request);
    this.#waiting.add(request);
  }

  /** Frees the request's blocks at once; an id that is not in flight is ignored. */
  abort(requestId: number): void {
    const request = this.#requests.get(requestId);
    if (request !== undefined) this.#finish(request);
  }

  /** Running requests first, then waiting ones as far as budget, seats and blocks go. */
  schedule(): ScheduledStep {
    const scheduled = new Map<Request, number>();
    const preemptionsBefore = this.#preemptions;
    const budget = this.#scheduleRunning(this.#config.maxNumBatchedTokens, scheduled);
    const sequences = [...scheduled].map(([request, numTokens]) => this.#take(request, numTokens));
    if (this.#preemptions === preemptionsBefore) this.#admitWaiting(budget, sequences);
    return { sequences, numTokens: sequences.reduce((sum, sequence) => sum + sequence.tokenIds.length, 0) };
  }

  /** Appends the sampled tokens of `step`; gives each request that got one its token. */
  update(step: ScheduledStep, result: StepResult): TokenOutput[] {
    const outputs: TokenOutput[] = [];
    for (const [index, { requestId }] of step.sequences.entries()) {
      const request = this.#requests.get(requestId)!;
      request.promptLogprobs.push(...result.promptLogprobs[index]!);
      const tokenId = result.tokenIds[index]!;
      if (tokenId !== null) outputs.push(this.#append(request, tokenId, result.logprobs[index]!));
    }
    return outputs;
  }

  #append(request: Request, tokenId: number, logprobs: Logprobs | null): TokenOutput {
    request.append(tokenId);
    const isFirst = request.numOutputTokens === 1;
    const wantsPrompt = isFirst && request.numPromptLogprobs !== null;
    const promptLogprobs = wantsPrompt ? request.promptLogprobs.splice(0) : null;
    const finish = checkStop(request);
    if (finish !== null) this.#finish(request);
    const { id: requestId, numCachedTokens } = request;
    return { requestId, tokenId, logprobs, promptLogprobs, numCachedTokens, finish };
  }

  /** Forgets every cached prefix. @returns false, with nothing changed, while requests run. */
  resetPrefixCache(): boolean {
    if (this.#running.length > 0) return false;
    this.#kvCache.reset();
    return true;
  }

  /** Plans tokens of the running requests into `scheduled`. @returns what is left of the budget. */
  #scheduleRunning(budget: number, scheduled: Map<Request, number>): number {
    let left = budget;
    for (const request of [...this.#running]) {
      if (left === 0) break;
      // It may have given up its blocks to one before it.
      if (request.state !== 'running') continue;
      const numTokens = Math.min(left, request.tokens.length - request.numComputedTokens);
      left += this.#makeRoom(request, numTokens, scheduled);
      if (request.state !== 'running') break;
      scheduled.set(request, numTokens);
      left -= numTokens;
    }
    return left;
  }

  /**
   * Allocates blocks for the next `numTokens` tokens of a running request; where the pool is empty the least urgent
   * of the running requests gives up its blocks, at worst `request` itself.
   * @returns tokens of this step's budget that preempted requests gave back.
   */
  #makeRoom(request: Request, numTokens: number, scheduled: Map<Request, number>): number {
    let returned = 0;
    while (!this.#kvCache.grow(request, request.numComputedTokens + numTokens)) {
      const victim = this.#running.reduce((a, b) => (compareUrgency(a, b) > 0 ? a : b));
      returned += scheduled.get(victim) ?? 0;
      scheduled.delete(victim);
      this.#preempt(victim);
      if (victim === request) break;
    }
    return returned;
  }

  /** A running request is never preempted for a waiting one: the first that finds no blocks ends the round. */
  #admitWaiting(budget: number, sequences: ScheduledSequence[]): void {
    let left = budget;
    while (left > 0 && this.#running.length < this.#config.maxNumSeqs) {
      const request = this.#waiting.first;
      if (request === null) return;
      const numCachedTokens = this.#kvCache.admit(request, left);
      if (numCachedTokens === null) return;
      this.#waiting.remove(request);
      request.moveTo('running');
      request.startFrom(numCachedTokens);
      this.#running.push(request);
      const numTokens = Math.min(left, request.tokens.length - numCachedTokens);
      sequences.push(this.#take(request, numTokens));
      left -= numTokens;
    }
  }

  /**
   * Plans the next `numTokens` tokens and counts them as computed, so that the step after can be planned, and so
   * that requests admitted behind it can share its blocks: a layer stores all keys before it reads any.
   */
  #take(request: Request, numTokens: number): ScheduledSequence {
    const firstPosition = request.numComputedTokens;
    request.numComputedTokens += numTokens;
    this.#kvCache.publish(request, request.numComputedTokens, firstPosition);
    const reachesEnd = request.numComputedTokens === request.tokens.length;
    return {
      requestId: request.id,
      tokenIds: request.tokens.slice(firstPosition, firstPosition + numTokens),
      firstPosition,
      blocks: request.blocks,
      sampling: reachesEnd ? request.sampling : null,
      edits: reachesEnd ? request.logitEdits() : null,
      promptScoring: scorePrompt(request, firstPosition),
    };
  }

  /** Recompute later: all blocks go back, the tokens stay. */
  #preempt(request: Request): void {
    this.#running.splice(this.#running.indexOf(request), 1);
    this.#kvCache.free(request);
    request.numComputedTokens = 0;
    request.moveTo('preempted');
    this.#waiting.add(request);
    this.#preemptions += 1;
  }

  #finish(request: Request): void {
    if (request.state === 'running') this.#running.splice(this.#running.indexOf(request), 1);
    else this.#waiting.remove(request);
    this.#kvCache.free(request);
    request.moveTo('finished');
    this.#requests.delete(request.id);
  }
}

/** Plans the prompt tokens whose predecessors are computed now, each of them once in the life of a request. */
function scorePrompt(request: Request, firstPosition: number): PromptScoring | null {
  const { numPromptLogprobs, numPromptTokensScored: start, promptLength } = request;
  const end = Math.min(promptLength, request.numComputedTokens + 1);
  if (numPromptLogprobs === null || start >= end) return null;
  request.numPromptTokensScored = end;
  return {
    firstToken: start - 1 - firstPosition,
    tokenIds: request.tokens.slice(start, end),
    numTop: numPromptLogprobs,
  };
}
