// Decides which tokens of which request are computed in the next step, and what a sampled token changes.
// There is no prefill phase and no decode phase: each request has tokens, some of them computed, and every step
// lets the computed ones catch up under one token budget.
//
// Steps may be planned while earlier ones are in flight: a token that is being sampled is planned like a known one. If
// that token finishes its request, the later steps in flight compute it for nothing: their results are discarded, and
// its blocks are freed after the last of them.

import { type KvCacheConfig, KvCacheManager } from '../kv-cache/kv-cache-manager.ts';
import type { KvTransferCommand, KvTransferEvent } from '../kv-transfer/connector.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import { type Logprobs, sliceRows } from '../sampling/logprobs.ts';
import { BlockTransfers } from './block-transfers.ts';
import { takePromptTargets, takeResumedTargets } from './prompt-logprobs.ts';
import { type AdmissionTimes, type NewRequest, Request } from './request.ts';
import { RequestQueue } from './request-queue.ts';
import {
  PENDING_TOKEN,
  type ScheduledSequence,
  type ScheduledStep,
  type StepResult,
  type TokensOutput,
} from './scheduled-step.ts';
import { SlotCounts } from './slot-counts.ts';
import { type Finish, type KeptTokens, keepUntilStop } from './stop-check.ts';
import { chooseVictim, chooseVictimsFor } from './victim.ts';

export interface SchedulerConfig extends KvCacheConfig {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
}

/** What a step added to one request. */
export interface TokenOutput {
  readonly requestId: number;
  /** In order; the last one is what `finish` is about. Empty where the request ends with an error. */
  readonly tokenIds: readonly number[];
  /** One row a token; null where none were asked for. */
  readonly logprobs: Logprobs | null;
  /** With the first token: the tokens of the prompt from the second on, in pieces; null where none were asked for. */
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

const NO_BLOCKS: readonly number[] = [];
const EMPTY_STEP: ScheduledStep = { releasedRequestIds: [], sequences: [], numTokens: 0 };

export class Scheduler {
  readonly #config: SchedulerConfig;
  readonly #kvCache: KvCacheManager;
  readonly #transfers: BlockTransfers;
  /** All that have blocks or wait for some: also those that are over and that a step in flight still computes. */
  readonly #requests = new Map<number, Request>();
  readonly #slots = new SlotCounts();
  readonly #waiting = new RequestQueue(this.#slots);
  /** In the order in which they were admitted. */
  readonly #running: Request[] = [];
  /** Requests that the executor has block tables of and that have none any more. */
  #releasedRequestIds: number[] = [];
  #numInFlightSteps = 0;
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

  /** What happened to transfers since the last call, for the connector. */
  drainTransferEvents(): readonly KvTransferEvent[] {
    return this.#transfers.drainTransferEvents();
  }

  /** What the connector has decided; a transfer that is not known any more is ignored. */
  applyTransfer(command: KvTransferCommand): void {
    if (command.kind === 'release') this.#transfers.release(command.transferId);
    else this.#endLoad(command.transferId, command.numTokens);
  }

  /**
   * Plans running requests first, then waiting ones as far as budget, slots and blocks go. Any number of steps may be in
   * flight. A step without tokens means that nothing can be computed until one in flight is finished, or where there is
   * none, until a request or a command comes; it is not to be computed.
   */
  schedule(): ScheduledStep {
    if (!this.#admitNewcomers()) return EMPTY_STEP;
    const scheduled = new Map<Request, number>();
    const { preemptions } = this.#totals;
    const budget = this.#scheduleRunning(this.#config.maxNumBatchedTokens, scheduled);
    if (budget === null) return EMPTY_STEP;
    const sequences: ScheduledSequence[] = [];
    for (const [request, numTokens] of scheduled) this.#scheduleTokens(request, numTokens, sequences);
    const hasRoom = this.#totals.preemptions === preemptions || sequences.length === 0;
    if (hasRoom) this.#admitWaiting(budget, sequences);
    if (sequences.length === 0) return EMPTY_STEP;
    this.#numInFlightSteps += 1;
    const releasedRequestIds = this.#releasedRequestIds;
    this.#releasedRequestIds = [];
    const numTokens = sequences.reduce((sum, sequence) => sum + sequence.tokenIds.length, 0);
    return { releasedRequestIds, sequences, numTokens };
  }

  /** Whether `logitEdits` of `step`, which was planned last, depends on tokens that steps before it still sample. */
  needsPendingTokens(step: ScheduledStep): boolean {
    return step.sequences.some(({ requestId, sampling }) => {
      const request = this.#requests.get(requestId)!;
      // One of the pending tokens is the step's own.
      return sampling !== null && request.hasLogitRules && request.numPendingTokens > 1;
    });
  }

  /** How the logits of each sequence of `step` are changed, once no pending tokens are needed. */
  logitEdits(step: ScheduledStep): (RowEdits | null)[] {
    return step.sequences.map(({ requestId, sampling }) => {
      const request = this.#requests.get(requestId)!;
      return sampling === null || request.state === 'finished' ? null : request.logitEdits();
    });
  }

  /** Takes the results of `step`, the oldest in flight. @returns the new tokens of each request that got some. */
  update(step: ScheduledStep, result: StepResult): TokenOutput[] {
    const outputs: TokenOutput[] = [];
    this.#numInFlightSteps -= 1;
    for (const [index, { requestId }] of step.sequences.entries()) {
      const request = this.#requests.get(requestId)!;
      request.numInFlightSteps -= 1;
      if (request.state === 'finished') {
        this.#releaseIfIdle(request);
        continue;
      }
      request.promptLogprobs.push(...result.promptLogprobs[index]!);
      request.resumedLogprobs.push(...result.resumedLogprobs[index]!);
      const output = result.outputs[index]!;
      if (output === null) continue;
      request.numPendingTokens -= 1;
      if (output.kind === 'brokenLogits') outputs.push(this.#fail(request));
      else this.#takeTokens(request, output, outputs);
    }
    return outputs;
  }

  /** Before its first new token a request emits those that it resumes; one of them may end it. */
  #takeTokens(request: Request, output: TokensOutput, outputs: TokenOutput[]): void {
    const { promptLength, numResumed, resumedLogprobs, stop } = request;
    // One by one, as when they were sampled: the events of a resumed stream are those of the first one.
    while (request.numOutputTokens < numResumed && request.state !== 'finished') {
      const index = request.numOutputTokens;
      const kept = keepUntilStop(stop, [request.tokens[promptLength + index]!], index);
      outputs.push(this.#emit(request, kept, resumedLogprobs[index] ?? null));
    }
    if (request.state === 'finished') return;
    const kept = keepUntilStop(stop, output.tokenIds, request.numOutputTokens);
    for (const tokenId of kept.tokenIds) {
      request.append(tokenId);
      // Where a step in flight computes this very token, the block that it completes can be named now.
      this.#publish(request, request.tokens.length - 1);
    }
    outputs.push(this.#emit(request, kept, output.logprobs));
  }

  /** @param logprobs at least as many rows as there are kept tokens */
  #emit(request: Request, { tokenIds, finish }: KeptTokens, logprobs: Logprobs | null): TokenOutput {
    const { id: requestId, numCachedTokens } = request;
    const isFirst = request.numOutputTokens === 0;
    request.numOutputTokens += tokenIds.length;
    if (isFirst) this.#totals.promptTokens += request.promptLength;
    this.#totals.generationTokens += tokenIds.length;
    const isCut = logprobs !== null && logprobs.tokenIds.length > tokenIds.length;
    const wantsPrompt = isFirst && request.numPromptLogprobs !== null;
    if (finish !== null) this.#finish(request);
    return {
      requestId,
      tokenIds,
      logprobs: isCut ? sliceRows(logprobs, 0, tokenIds.length) : logprobs,
      promptLogprobs: wantsPrompt ? request.promptLogprobs.splice(0) : null,
      numCachedTokens,
      admission: isFirst ? request.admissionTimes : null,
      finish,
    };
  }

  /** Others go on: what is wrong with this request's logits is in its own row. */
  #fail(request: Request): TokenOutput {
    this.#finish(request);
    const { id: requestId, numCachedTokens } = request;
    const finish = { reason: 'error', stopTokenId: null } as const;
    const none = { tokenIds: [], logprobs: null, promptLogprobs: null, admission: null };
    return { requestId, ...none, numCachedTokens, finish };
  }

  /** Forgets every cached prefix. @returns false, with nothing changed, while requests run or load. */
  resetPrefixCache(): boolean {
    if (this.#running.length + this.#numLoading > 0) return false;
    this.#kvCache.reset();
    return true;
  }

  /**
   * Plans tokens of the running requests into `scheduled`.
   * @returns what is left of the budget; null where blocks are short and steps are in flight: the requests that they
   * finish give blocks back, and nothing gives up its blocks while it is being computed.
   */
  #scheduleRunning(budget: number, scheduled: Map<Request, number>): number | null {
    let left = budget;
    for (const request of [...this.#running]) {
      if (left === 0) break;
      const numTokens = Math.min(left, request.numTokensToCompute);
      // It may have given up its blocks to one before it.
      if (request.state !== 'running' || numTokens === 0) continue;
      const hasBlocks = this.#kvCache.grow(request, request.numComputedTokens + numTokens);
      if (!hasBlocks && this.#numInFlightSteps > 0) return null;
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
   * @returns false, with nothing changed, where steps are in flight: nothing gives up its blocks while it is being computed.
   */
  #admitNewcomers(): boolean {
    for (let found = this.#findNewcomer(); found !== null; found = this.#findNewcomer()) {
      if (this.#numInFlightSteps > 0) return false;
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
      if (numTokens > 0) this.#scheduleTokens(request, numTokens, sequences);
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
    if (isLoad && this.#transfers.requestLoad(request, numCachedTokens)) {
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
      this.#freeBlocks(request);
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
   * Plans the next `numTokens` tokens and counts them as computed, so that the next step can be planned, and so that
   * requests admitted later can share its blocks: a layer stores all keys before it reads any.
   */
  #scheduleTokens(request: Request, numTokens: number, sequences: ScheduledSequence[]): void {
    const { tokens, blocks, numComputedTokens: firstPosition, numScheduledBlocks } = request;
    const isPending = firstPosition >= tokens.length;
    const reachesEnd = firstPosition + numTokens === tokens.length + request.numPendingTokens;
    request.numComputedTokens += numTokens;
    request.numInFlightSteps += 1;
    if (reachesEnd) request.numPendingTokens += 1;
    request.numScheduledBlocks = blocks.length;
    this.#publish(request, firstPosition);
    sequences.push({
      requestId: request.id,
      tokenIds: isPending ? [PENDING_TOKEN] : tokens.slice(firstPosition, firstPosition + numTokens),
      firstPosition,
      newBlocks: numScheduledBlocks < blocks.length ? blocks.slice(numScheduledBlocks) : NO_BLOCKS,
      sampling: reachesEnd ? request.sampling : null,
      promptLogprobs: takePromptTargets(request, firstPosition),
      resumedLogprobs: takeResumedTargets(request, firstPosition),
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
    this.#freeBlocks(request);
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
    else this.#releaseIfIdle(request);
  }

  /** Frees the blocks of a request that is over, once no step in flight writes into them. */
  #releaseIfIdle(request: Request): void {
    if (request.numInFlightSteps > 0) return;
    this.#requests.delete(request.id);
    this.#freeBlocks(request);
  }

  #freeBlocks(request: Request): void {
    this.#kvCache.free(request);
    if (request.numScheduledBlocks > 0) this.#releasedRequestIds.push(request.id);
    request.numScheduledBlocks = 0;
  }
}

/** What was preempted is computed again: nobody sends it twice. */
function wantsLoad({ state, transfer }: Request): boolean {
  return state === 'waiting' && transfer?.kind === 'load';
}
