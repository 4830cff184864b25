// Decides which tokens of which request are computed in the next step, and what a sampled token changes.
// There is no prefill phase and no decode phase: each request has tokens, some of them computed, and every step
// lets the computed ones catch up under one token budget. The engine core is its only caller.
//
// A step may be planned while the one before it runs: a token that is being sampled is planned like a known one. What
// that token ends has then a step too many ahead, whose result is dropped and whose blocks stay taken until it has run.

import { type KvCacheConfig, KvCacheManager } from '../kv-cache/kv-cache-manager.ts';
import type { TransferNotice, TransferOrder } from '../kv-transfer/connector.ts';
import { type Logprobs, NO_TOKEN } from '../ops/ops.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import { BlockTransfers } from './block-transfers.ts';
import { type AdmissionTimes, type NewRequest, Request } from './request.ts';
import { RequestQueue } from './request-queue.ts';
import type { ScheduledSequence, ScheduledStep, StepResult } from './scheduled-step.ts';
import { SlotCounts } from './slot-counts.ts';
import { checkStop, type Finish } from './stop-check.ts';
import { scorePrompt, scoreResumed } from './token-scoring.ts';
import { chooseVictim, chooseVictimsFor } from './victim.ts';

export interface SchedulerConfig extends KvCacheConfig {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
}

/** What a step added to one request. */
export interface TokenOutput {
  readonly requestId: number;
  /** NO_TOKEN where the request ends with an error. */
  readonly tokenId: number;
  /** One row; null where nobody asked. */
  readonly logprobs: Logprobs | null;
  /** With the first token: the tokens of the prompt from the second on, in pieces; null where nobody asked. */
  readonly promptLogprobs: readonly Logprobs[] | null;
  /** Prompt tokens that came from the prefix cache. */
  readonly numCachedTokens: number;
  /** With the first token, else null. */
  readonly admission: AdmissionTimes | null;
  /** Null while the request goes on. */
  readonly finish: Finish | null;
}

export interface SchedulerStats {
  readonly running: number;
  readonly waiting: number;
  /** Requests that hold their blocks and wait for another instance's KV. */
  readonly loading: number;
  readonly freeBlocks: number;
  /** Blocks that are kept until another instance has them. */
  readonly heldBlocks: number;
  readonly numBlocks: number;
  /** Since the start, like all that follow. */
  readonly preemptions: number;
  /** Tokens looked up in the prefix cache, and found. */
  readonly prefixCacheQueries: number;
  readonly prefixCacheHits: number;
  /** Tokens of prompts that have been answered, and of answers. */
  readonly promptTokens: number;
  readonly generationTokens: number;
}

export class Scheduler {
  readonly #config: SchedulerConfig;
  readonly #kvCache: KvCacheManager;
  readonly #transfers: BlockTransfers;
  /** All that have blocks or wait for some: also those that are over and that a step ahead still computes. */
  readonly #requests = new Map<number, Request>();
  readonly #slots = new SlotCounts();
  readonly #waiting = new RequestQueue(this.#slots);
  /** In the order in which they were admitted. */
  readonly #running: Request[] = [];
  #numStepsAhead = 0;
  #numLoading = 0;
  #numAdded = 0;
  readonly #totals = {
    preemptions: 0,
    prefixCacheQueries: 0,
    prefixCacheHits: 0,
    promptTokens: 0,
    generationTokens: 0,
  };

  constructor(config: SchedulerConfig) {
    this.#config = config;
    this.#kvCache = new KvCacheManager(config);
    this.#transfers = new BlockTransfers(this.#kvCache, config.blockSize);
  }

  get hasUnfinished(): boolean {
    return this.#requests.size > 0;
  }

  get stats(): SchedulerStats {
    return {
      running: this.#running.length,
      waiting: this.#waiting.length,
      loading: this.#numLoading,
      freeBlocks: this.#kvCache.numFreeBlocks,
      heldBlocks: this.#transfers.numHeldBlocks,
      numBlocks: this.#kvCache.numBlocks,
      ...this.#totals,
    };
  }

  add(newRequest: NewRequest): void {
    const request = new Request(newRequest, this.#numAdded++);
    this.#requests.set(request.id, request);
    this.#waiting.add(request);
    this.#transfers.add(request);
  }

  /** Frees the request's blocks once nothing writes into them any more; an id that is not in flight is ignored. */
  abort(requestId: number): void {
    const request = this.#requests.get(requestId);
    if (request !== undefined && request.state !== 'finished') this.#finish(request);
  }

  /** What the connector is to know since the last call. */
  takeNotices(): readonly TransferNotice[] {
    return this.#transfers.takeNotices();
  }

  /** What the connector says; a transfer that is not known any more is ignored. */
  follow(order: TransferOrder): void {
    if (order.kind === 'release') this.#transfers.release(order.transferId);
    else this.#endLoad(order.transferId, order.numTokens);
  }

  /**
   * Running requests first, then waiting ones as far as budget, slots and blocks go. At most one step may be ahead, its
   * results unknown. An empty step stays empty until that step is answered, or where there is none, until a request or
   * an order comes: all there is waits for blocks.
   */
  schedule(): ScheduledStep {
    if (!this.#admitNewcomers()) return { sequences: [], numTokens: 0 };
    const scheduled = new Map<Request, number>();
    const { preemptions } = this.#totals;
    const budget = this.#scheduleRunning(this.#config.maxNumBatchedTokens, scheduled);
    if (budget === null) return { sequences: [], numTokens: 0 };
    const sequences: ScheduledSequence[] = [];
    for (const [request, numTokens] of scheduled) this.#take(request, numTokens, sequences);
    const hasRoom = this.#totals.preemptions === preemptions || sequences.length === 0;
    if (hasRoom) this.#admitWaiting(budget, sequences);
    if (sequences.length > 0) this.#numStepsAhead += 1;
    return { sequences, numTokens: sequences.reduce((sum, sequence) => sum + sequence.tokenIds.length, 0) };
  }

  /** What the logits of each sequence of `step` go through, once the steps before it are answered. */
  logitEdits(step: ScheduledStep): (RowEdits | null)[] {
    return step.sequences.map(({ requestId, sampling }) => {
      const request = this.#requests.get(requestId)!;
      return sampling === null || request.state === 'finished' ? null : request.logitEdits();
    });
  }

  /** Appends the sampled tokens of `step`, the oldest that is ahead; gives each request that got one its token. */
  update(step: ScheduledStep, result: StepResult): TokenOutput[] {
    const outputs: TokenOutput[] = [];
    this.#numStepsAhead -= 1;
    for (const [index, { requestId }] of step.sequences.entries()) {
      const request = this.#requests.get(requestId)!;
      request.numStepsAhead -= 1;
      if (request.state === 'finished') {
        this.#leave(request);
        continue;
      }
      request.promptLogprobs.push(...result.promptLogprobs[index]!);
      request.resumedLogprobs.push(...result.resumedLogprobs[index]!);
      const tokenId = result.tokenIds[index]!;
      if (tokenId === null) continue;
      request.numTokensAhead -= 1;
      if (tokenId === NO_TOKEN) outputs.push(this.#fail(request));
      else outputs.push(...this.#append(request, tokenId, result.logprobs[index]!));
    }
    return outputs;
  }

  /** Before its first new token a request gives out those that it resumes; one of them may end it. */
  #append(request: Request, tokenId: number, logprobs: Logprobs | null): TokenOutput[] {
    const outputs: TokenOutput[] = [];
    const { promptLength, numResumed, resumedLogprobs } = request;
    while (request.numGivenTokens < numResumed && request.state !== 'finished') {
      const known = request.tokens[promptLength + request.numGivenTokens]!;
      outputs.push(this.#give(request, known, resumedLogprobs[request.numGivenTokens] ?? null));
    }
    if (request.state === 'finished') return outputs;
    request.append(tokenId);
    // Where the step behind computes this very token, the block that it completes can be named now.
    this.#publish(request, request.tokens.length - 1);
    return [...outputs, this.#give(request, tokenId, logprobs)];
  }

  #give(request: Request, tokenId: number, logprobs: Logprobs | null): TokenOutput {
    const isFirst = request.numGivenTokens === 0;
    request.numGivenTokens += 1;
    if (isFirst) this.#totals.promptTokens += request.promptLength;
    this.#totals.generationTokens += 1;
    const wantsPrompt = isFirst && request.numPromptLogprobs !== null;
    const promptLogprobs = wantsPrompt ? request.promptLogprobs.splice(0) : null;
    const finish = checkStop(request.stop, tokenId, request.numGivenTokens);
    if (finish !== null) this.#finish(request);
    const { id: requestId, numCachedTokens } = request;
    const admission = isFirst ? request.admissionTimes : null;
    return { requestId, tokenId, logprobs, promptLogprobs, numCachedTokens, admission, finish };
  }

  /** Others go on: what is wrong with this request's logits is in its own row. */
  #fail(request: Request): TokenOutput {
    this.#finish(request);
    const { id: requestId, numCachedTokens } = request;
    const finish = { reason: 'error', stopTokenId: null } as const;
    const none = { logprobs: null, promptLogprobs: null, admission: null };
    return { requestId, tokenId: NO_TOKEN, ...none, numCachedTokens, finish };
  }

  /** Forgets every cached prefix. @returns false, with nothing changed, while requests run or load. */
  resetPrefixCache(): boolean {
    if (this.#running.length + this.#numLoading > 0) return false;
    this.#kvCache.reset();
    return true;
  }

  /**
   * Plans tokens of the running requests into `scheduled`.
   * @returns what is left of the budget; null where blocks are short and a step is ahead: what that step ends gives
   * blocks back, and nothing gives up its blocks while it is being computed.
   */
  #scheduleRunning(budget: number, scheduled: Map<Request, number>): number | null {
    let left = budget;
    for (const request of [...this.#running]) {
      if (left === 0) break;
      const numTokens = Math.min(left, request.numTokensToCompute);
      // It may have given up its blocks to one before it.
      if (request.state !== 'running' || numTokens === 0) continue;
      const hasBlocks = this.#kvCache.grow(request, request.numComputedTokens + numTokens);
      if (!hasBlocks && this.#numStepsAhead > 0) return null;
      if (!hasBlocks) left += this.#makeRoom(request, numTokens, scheduled);
      if (request.state !== 'running') continue;
      scheduled.set(request, numTokens);
      left -= numTokens;
    }
    return left;
  }

  /**
   * Finds blocks for the next `numTokens` tokens of a running request: others give up theirs, at worst `request` itself.
   * @returns tokens of this step's budget that preempted requests gave back.
   */
  #makeRoom(request: Request, numTokens: number, scheduled: Map<Request, number>): number {
    let returned = 0;
    while (!this.#kvCache.grow(request, request.numComputedTokens + numTokens)) {
      const victim = chooseVictim(this.#running, this.#slots);
      returned += scheduled.get(victim) ?? 0;
      scheduled.delete(victim);
      this.#preempt(victim);
      if (victim === request) break;
    }
    return returned;
  }

  /**
   * Lets in each request that has no slot, that free slots and blocks are not enough for, and that another one, or
   * another caller, has at least two more slots than: those whose place it takes are preempted.
   * @returns false, with nothing changed, where a step is ahead: nothing gives up its blocks while it is being computed.
   */
  #admitNewcomers(): boolean {
    for (let found = this.#findNewcomer(); found !== null; found = this.#findNewcomer()) {
      if (this.#numStepsAhead > 0) return false;
      for (const victim of found.victims) this.#preempt(victim);
      this.#admit(found.newcomer, Number.POSITIVE_INFINITY);
    }
    return true;
  }

  #findNewcomer(): { readonly newcomer: Request; readonly victims: readonly Request[] } | null {
    for (const newcomer of this.#waiting.firstWithoutSlot()) {
      if (this.#isWithinReach(newcomer)) continue;
      // Room for its whole prompt, so that it need not give way again before its first token.
      const victims = chooseVictimsFor(newcomer, this.#running, this.#slots, (leaving) =>
        this.#kvCache.canAdmit(newcomer, Number.POSITIVE_INFINITY, leaving),
      );
      if (victims !== null) return { newcomer, victims };
    }
    return null;
  }

  /** Whether free slots go as far as to this request, and blocks to the next one and to this. */
  #isWithinReach(request: Request): boolean {
    const { maxNumBatchedTokens } = this.#config;
    if (this.#numFreeSlots === 0 || this.#waiting.numAheadOf(request) >= this.#numFreeSlots) return false;
    return [this.#waiting.first!, request].every((one) =>
      this.#kvCache.canAdmit(one, wantsLoad(one) ? Number.POSITIVE_INFINITY : maxNumBatchedTokens, []),
    );
  }

  get #numFreeSlots(): number {
    return this.#config.maxNumSeqs - this.#running.length - this.#numLoading;
  }

  /** In the order of the queue: the first that finds no blocks ends the round. */
  #admitWaiting(budget: number, sequences: ScheduledSequence[]): void {
    let left = budget;
    while (this.#numFreeSlots > 0) {
      const request = this.#waiting.first;
      if (request === null || (left === 0 && !wantsLoad(request))) return;
      if (!this.#admit(request, left)) return;
      if (request.state !== 'running') continue;
      const numTokens = Math.min(left, request.numTokensToCompute);
      if (numTokens > 0) this.#take(request, numTokens, sequences);
      left -= numTokens;
    }
  }

  /**
   * Gives a waiting request its slot, and blocks for as many of its tokens as are cached and up to `maxNewTokens` more.
   * @returns false, with nothing changed, where there are too few blocks.
   */
  #admit(request: Request, maxNewTokens: number): boolean {
    const isLoad = wantsLoad(request);
    const numCachedTokens = this.#kvCache.admit(request, isLoad ? Number.POSITIVE_INFINITY : maxNewTokens);
    if (numCachedTokens === null) return false;
    this.#waiting.admit(request);
    this.#slots.take(request);
    this.#countPrefix(request, numCachedTokens);
    if (isLoad && this.#transfers.askFor(request, numCachedTokens)) {
      request.moveTo('waitingForRemoteKv');
      this.#numLoading += 1;
    } else {
      request.moveTo('running');
      this.#running.push(request);
    }
    return true;
  }

  #countPrefix(request: Request, numCachedTokens: number): void {
    const { blockSize, enablePrefixCaching } = this.#config;
    // Of a resumed answer more may be found than a prompt alone would tell.
    const most = Math.floor((request.promptLength - 1) / blockSize) * blockSize;
    const ofPrompt = Math.min(numCachedTokens, most);
    if (request.isNew && enablePrefixCaching && request.mayReadCache) {
      this.#totals.prefixCacheQueries += request.promptLength;
      this.#totals.prefixCacheHits += ofPrompt;
    }
    request.startFrom(numCachedTokens, ofPrompt);
  }

  /** The first `numTokens` tokens have come; what a load does not bring is computed here. */
  #endLoad(transferId: number, numTokens: number): void {
    const request = this.#transfers.endLoad(transferId);
    if (request === null) return;
    if (request.state === 'finished') {
      this.#kvCache.free(request);
      return;
    }
    const { numComputedTokens: numCached, promptLength } = request;
    const numLoaded = Math.max(numCached, Math.min(numTokens, promptLength - 1));
    request.numComputedTokens = numLoaded;
    this.#kvCache.publish(request, numLoaded, numCached);
    this.#numLoading -= 1;
    request.moveTo('running');
    this.#running.push(request);
  }

  /**
   * Plans the next `numTokens` tokens and counts them as computed, so that the step after can be planned, and so
   * that requests admitted behind it can share its blocks: a layer stores all keys before it reads any.
   */
  #take(request: Request, numTokens: number, sequences: ScheduledSequence[]): void {
    const { tokens, numTokensAhead, numComputedTokens: firstPosition, place } = request;
    const isAhead = firstPosition === tokens.length;
    const reachesEnd = firstPosition + numTokens === tokens.length + numTokensAhead;
    request.numComputedTokens += numTokens;
    request.numStepsAhead += 1;
    if (reachesEnd) request.numTokensAhead += 1;
    request.place = sequences.length;
    this.#publish(request, firstPosition);
    sequences.push({
      requestId: request.id,
      tokenIds: isAhead ? [-1 - place] : tokens.slice(firstPosition, firstPosition + numTokens),
      firstPosition,
      blocks: request.blocks,
      sampling: reachesEnd ? request.sampling : null,
      promptScoring: scorePrompt(request, firstPosition),
      resumedScoring: scoreResumed(request, firstPosition),
      send: this.#transfers.takeCompleted(request),
    });
  }

  /** Lets others find the blocks that hold known tokens from `firstPosition` on and are planned to be computed. */
  #publish(request: Request, firstPosition: number): void {
    const numKnown = Math.min(request.numComputedTokens, request.tokens.length);
    this.#kvCache.publish(request, numKnown, firstPosition);
  }

  /** Recompute later: all blocks go back, the tokens stay. */
  #preempt(request: Request): void {
    this.#running.splice(this.#running.indexOf(request), 1);
    this.#slots.giveBack(request);
    this.#kvCache.free(request);
    request.numComputedTokens = 0;
    request.numPreemptions += 1;
    request.moveTo('preempted');
    this.#waiting.add(request);
    this.#totals.preemptions += 1;
  }

  #finish(request: Request): void {
    if (request.state === 'running') this.#running.splice(this.#running.indexOf(request), 1);
    else if (request.state === 'waitingForRemoteKv') this.#numLoading -= 1;
    const hasSlot = request.state === 'running' || request.state === 'waitingForRemoteKv';
    if (hasSlot) this.#slots.giveBack(request);
    else this.#waiting.remove(request);
    const isLoading = !this.#transfers.end(request);
    request.moveTo('finished');
    // What is being written into stays taken: here until the one answer to the load comes.
    if (isLoading) this.#requests.delete(request.id);
    else this.#leave(request);
  }

  /** Frees the blocks of a request that is over, once no step ahead writes into them. */
  #leave(request: Request): void {
    if (request.numStepsAhead > 0) return;
    this.#requests.delete(request.id);
    this.#kvCache.free(request);
  }
}

/** What was preempted is computed again: nobody sends it twice. */
function wantsLoad({ state, transfer }: Request): boolean {
  return state === 'waiting' && transfer?.kind === 'load';
}
