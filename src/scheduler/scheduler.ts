// Decides which tokens of which request are computed in the next step, and what a sampled token changes.
// There is no prefill phase and no decode phase: each request has tokens, some of them computed, and every step
// lets the computed ones catch up under one token budget. The engine core is its only caller.

import { KvCacheManager } from '../kv-cache/kv-cache-manager.ts';
import { type NewRequest, Request } from './request.ts';
import type { ScheduledSequence, ScheduledStep } from './scheduled-step.ts';
import { checkStop, type Finish } from './stop-check.ts';

export interface SchedulerConfig {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly numBlocks: number;
  readonly blockSize: number;
}

/** What a step added to one request. */
export interface TokenOutput {
  readonly requestId: number;
  readonly tokenId: number;
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
  /** First come, first served; preempted requests go to the front. */
  readonly #waiting: Request[] = [];
  readonly #running: Request[] = [];
  #preemptions = 0;

  constructor(config: SchedulerConfig) {
    this.#config = config;
    this.#kvCache = new KvCacheManager(config.numBlocks, config.blockSize);
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
    const request = new Request(newRequest);
    this.#requests.set(request.id, request);
    this.#waiting.push(request);
  }

  /** Frees the request's blocks at once; an id that is not in flight is ignored. */
  abort(requestId: number): void {
    const request = this.#requests.get(requestId);
    if (request !== undefined) this.#finish(request);
  }

  /** Running requests first, then waiting ones as far as budget, seats and blocks go. */
  schedule(): ScheduledStep {
    const scheduled = new Map<Request, ScheduledSequence>();
    let budget = this.#config.maxNumBatchedTokens;
    const preemptionsBefore = this.#preemptions;
    for (let index = 0; index < this.#running.length && budget > 0; index += 1) {
      const request = this.#running[index]!;
      const numTokens = Math.min(budget, request.tokens.length - request.numComputedTokens);
      budget += this.#makeRoom(request, numTokens, scheduled);
      if (request.state !== 'running') break;
      scheduled.set(request, this.#take(request, numTokens));
      budget -= numTokens;
    }
    if (this.#preemptions === preemptionsBefore) this.#admitWaiting(budget, scheduled);
    const sequences = [...scheduled.values()];
    return { sequences, numTokens: sequences.reduce((sum, sequence) => sum + sequence.tokenIds.length, 0) };
  }

  /** Appends the sampled tokens, one for each sequence of `step` that asked for one, in order. */
  update(step: ScheduledStep, sampledTokens: Int32Array): TokenOutput[] {
    const outputs: TokenOutput[] = [];
    for (const sequence of step.sequences) {
      if (sequence.sampling === null) continue;
      const tokenId = sampledTokens[outputs.length]!;
      const request = this.#requests.get(sequence.requestId)!;
      request.tokens.push(tokenId);
      const finish = checkStop(request);
      if (finish !== null) this.#finish(request);
      outputs.push({ requestId: request.id, tokenId, finish });
    }
    return outputs;
  }

  /**
   * Allocates blocks for the next `numTokens` tokens of a running request; where the pool is empty the last of the
   * running requests gives up its blocks, at worst `request` itself.
   * @returns tokens of this step's budget that preempted requests gave back.
   */
  #makeRoom(request: Request, numTokens: number, scheduled: Map<Request, ScheduledSequence>): number {
    let returned = 0;
    while (!this.#kvCache.allocate(request, request.numComputedTokens + numTokens)) {
      const victim = this.#running.at(-1)!;
      returned += scheduled.get(victim)?.tokenIds.length ?? 0;
      scheduled.delete(victim);
      this.#preempt(victim);
      if (victim === request) break;
    }
    return returned;
  }

  #admitWaiting(budget: number, scheduled: Map<Request, ScheduledSequence>): void {
    let left = budget;
    while (left > 0 && this.#running.length < this.#config.maxNumSeqs) {
      const request = this.#waiting[0];
      if (request === undefined) return;
      const numTokens = Math.min(left, request.tokens.length - request.numComputedTokens);
      if (!this.#kvCache.allocate(request, request.numComputedTokens + numTokens)) return;
      this.#waiting.shift();
      request.moveTo('running');
      this.#running.push(request);
      scheduled.set(request, this.#take(request, numTokens));
      left -= numTokens;
    }
  }

  /** Plans the next `numTokens` tokens and counts them as computed, so that the step after can be planned. */
  #take(request: Request, numTokens: number): ScheduledSequence {
    const firstPosition = request.numComputedTokens;
    request.numComputedTokens += numTokens;
    const reachesEnd = request.numComputedTokens === request.tokens.length;
    return {
      requestId: request.id,
      tokenIds: request.tokens.slice(firstPosition, firstPosition + numTokens),
      firstPosition,
      blocks: request.blocks,
      sampling: reachesEnd ? request.sampling : null,
    };
  }

  /** Recompute later: all blocks go back, the tokens stay. */
  #preempt(request: Request): void {
    this.#running.splice(this.#running.indexOf(request), 1);
    this.#kvCache.free(request);
    request.numComputedTokens = 0;
    request.moveTo('preempted');
    this.#waiting.unshift(request);
    this.#preemptions += 1;
  }

  #finish(request: Request): void {
    const queue = request.state === 'running' ? this.#running : this.#waiting;
    queue.splice(queue.indexOf(request), 1);
    this.#kvCache.free(request);
    request.moveTo('finished');
    this.#requests.delete(request.id);
  }
}
