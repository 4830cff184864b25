// Decides which tokens of which request are computed in the next step, and what a sampled token changes.
// There is no prefill phase and no decode phase: each request has tokens, some of them computed, and every step
// lets the computed ones catch up under one token budget.
//
// Steps may be planned while earlier ones are in flight: a token that is being sampled is planned like a known one. If
// that token finishes its request, the later steps in flight compute it for nothing: their results are discarded, and
// its blocks are freed after the last of them.
//
// Where the layers are in stages, a step for each stage is in flight, and each has its share of the sequences. The stage that samples
// is not the one that begins, so a token is planned once it is known.
//
// A request whose tokens are all known may get a draft: tokens that are guessed ahead, each computed after the others in
// the same step. How many are right is known with the result, so nothing is planned ahead of it; only what was accepted
// becomes a token of the request, counts as computed and gets a name in the prefix cache.

import type { SpeculativeConfig } from '../config/speculative-config.ts';
import { type KvCacheConfig, KvCacheManager } from '../kv-cache/kv-cache-manager.ts';
import type { KvTransferCommand } from '../kv-transfer/connector.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import type { Logprobs } from '../sampling/logprobs.ts';
import type { Proposer } from '../speculation/proposer.ts';
import { type SpeculationStats, Speculator } from '../speculation/speculator.ts';
import { Automata } from './automata.ts';
import { BlockTransfers, type OnTransferEvent } from './block-transfers.ts';
import { EncoderBudget } from './encoder-budget.ts';
import { takePromptTargets, takeResumedTargets } from './prompt-logprobs.ts';
import { type AdmissionRecord, type NewRequest, Request, type RequestState } from './request.ts';
import {
  type EncoderCosts,
  numSampledRows,
  PENDING_TOKEN,
  type ScheduledSequence,
  type ScheduledStep,
  type StepResult,
  type TokensOutput,
} from './scheduled-step.ts';
import { SlotManager } from './slot-manager.ts';
import { type StepShare, shareOfStep } from './step-share.ts';
import { checkStop, type Finish } from './stop-check.ts';

export interface SchedulerConfig extends KvCacheConfig {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  /** Of what sees images; null or absent without it. */
  readonly encoderCosts?: EncoderCosts | null;
  /** Most tokens of an image where a step computes all of one, no more than the limits of a step; null or absent: it may end inside one. */
  readonly wholeImageTokens?: number | null;
  /** Longest context that LongRoPE does not stretch; null or absent without LongRoPE. */
  readonly shortContext?: number | null;
  /** Whether a prompt is computed in one step, of any length: its tokens see those after them. */
  readonly computesWholePrompts?: boolean;
  /** Stages that the layers are in: so many steps are computed at the same time; absent is 1. */
  readonly pipelineParallelSize?: number;
  /** Null guesses no tokens ahead. */
  readonly speculative: SpeculativeConfig | null;
}

/**
 * What a step added to one request. Tokens that come together have an output each: the events of a stream must not tell
 * how many came with one step, since another instance that repeats it accepts other drafts.
 */
export interface TokenOutput {
  readonly requestId: number;
  /** One, which `finish` is about; none where the request ends with an error. */
  readonly tokenIds: readonly number[];
  /** Left out but by a pooling model: what it made of the request, which ends without tokens. */
  readonly pooled?: Float32Array;
  /** One row a token; null where none were asked for. */
  readonly logprobs: Logprobs | null;
  /** With the first token: the tokens of the prompt from the second on, in pieces; null where none were asked for. */
  readonly promptLogprobs: readonly Logprobs[] | null;
  /** Prompt tokens that came from the prefix cache. */
  readonly numCachedTokens: number;
  /** With the first token, else null. */
  readonly admission: AdmissionRecord | null;
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
  /** Tokens that another instance was asked for, and that came from it. */
  readonly externalCacheQueries: number;
  readonly externalCacheHits: number;
  /** Tokens of prompts that have been answered: all, those from the prefix cache, those from another instance; and of answers. */
  readonly promptTokens: number;
  readonly cachedPromptTokens: number;
  readonly loadedPromptTokens: number;
  readonly generationTokens: number;
  /** Null where no tokens are guessed ahead. */
  readonly speculation: SpeculationStats | null;
  /** Adapters of the requests that run, and of those that wait. */
  readonly runningAdapters: readonly number[];
  readonly waitingAdapters: readonly number[];
}

const NO_DRAFT: readonly number[] = [];
const REPETITION: Finish = { reason: 'repetition', stopTokenId: null };
const NO_TOKENS = { tokenIds: [], logprobs: null, promptLogprobs: null };
const EMPTY_STEP: ScheduledStep = { releasedRequestIds: [], sequences: [], numTokens: 0, tileWork: [] };

export class Scheduler {
  readonly #config: SchedulerConfig;
  readonly #kvCache: KvCacheManager;
  readonly #transfers: BlockTransfers;
  /** All that have blocks or wait for some: also those that are over and that a step in flight still computes. */
  readonly #requests = new Map<number, Request>();
  readonly #slots: SlotManager;
  readonly #speculator: Speculator | null;
  readonly #automata = new Automata();
  /** Null where the model reads only text. */
  readonly #encoder: EncoderBudget | null;
  #numInFlightSteps = 0;
  #numAdded = 0;
  readonly #totals = { promptTokens: 0, cachedPromptTokens: 0, loadedPromptTokens: 0, generationTokens: 0 };

  /**
   * @param draftModel of the method of that name, else null
   * @param onTransferEvent gets what the connector must know
   */
  constructor(
    config: SchedulerConfig,
    draftModel: Proposer | null = null,
    onTransferEvent: OnTransferEvent = () => {},
  ) {
    this.#config = config;
    this.#kvCache = new KvCacheManager(config);
    this.#transfers = new BlockTransfers(this.#kvCache, config, onTransferEvent);
    this.#slots = new SlotManager(config, this.#kvCache, this.#transfers);
    const { speculative, encoderCosts = null, maxNumBatchedTokens } = config;
    // A step sees no longer than one of text takes.
    this.#encoder = encoderCosts && new EncoderBudget(encoderCosts, maxNumBatchedTokens);
    this.#speculator = speculative === null ? null : new Speculator(speculative, draftModel);
  }

  get hasUnfinished(): boolean {
    return this.#requests.size > 0;
  }

  get stats(): SchedulerStats {
    return {
      ...this.#slots.stats,
      freeBlocks: this.#kvCache.numFreeBlocks,
      heldBlocks: this.#transfers.numHeldBlocks,
      numBlocks: this.#kvCache.numBlocks,
      ...this.#totals,
      speculation: this.#speculator?.stats ?? null,
      runningAdapters: this.#adaptersOf(['running']),
      waitingAdapters: this.#adaptersOf(['waiting', 'waitingForRemoteKv', 'preempted']),
    };
  }

  /** Whether a sequence that is not over names the adapter. */
  usesAdapter(adapterId: number): boolean {
    return [...this.#requests.values()].some(
      (request) => request.adapterId === adapterId && request.state !== 'finished',
    );
  }

  #adaptersOf(states: readonly RequestState[]): number[] {
    const requests = [...this.#requests.values()].filter(({ state }) => states.includes(state));
    return [...new Set(requests.flatMap(({ adapterId }) => adapterId ?? []))];
  }

  add(newRequest: NewRequest): void {
    const { constraint = null } = newRequest;
    const begun = constraint === null ? null : this.#automata.begin(constraint);
    const request = new Request(newRequest, this.#numAdded++, begun);
    this.#requests.set(request.id, request);
    this.#slots.add(request);
    this.#transfers.add(request);
  }

  /** Frees the request's blocks once nothing writes into them any more; an id that is not in flight is ignored. */
  abort(requestId: number): void {
    const request = this.#requests.get(requestId);
    if (request !== undefined && request.state !== 'finished') this.#finish(request);
  }

  /** What the connector has decided; a transfer that is not known any more is ignored. */
  applyTransfer(command: KvTransferCommand): void {
    if (command.kind === 'release') {
      this.#transfers.release(command.transferId);
      return;
    }
    const request = this.#transfers.endLoad(command.transferId);
    if (request?.state === 'finished') this.#slots.freeBlocks(request);
    else if (request !== null) this.#slots.endLoad(request, command.numTokens);
  }

  /**
   * Plans running requests first, then waiting ones as far as budget, slots and blocks go. Any number of steps may be in
   * flight. A step without tokens is not one of them. Where it sees nothing of images either, nothing can be computed until one in
   * flight is finished, or where there is none, until a request or a command comes.
   */
  schedule(): ScheduledStep {
    if (this.#mustVerifyFirst()) return EMPTY_STEP;
    this.#kvCache.beginStep();
    // Nothing gives up its blocks while it is being computed.
    if (!this.#slots.admitNewcomers(this.#numInFlightSteps === 0)) return EMPTY_STEP;
    const sequences = this.#planSequences();
    if (sequences === null) return EMPTY_STEP;
    const tileWork = this.#encoder?.take() ?? [];
    if (sequences.length === 0) return { ...EMPTY_STEP, tileWork };
    sequences.sort((x, y) => (x.adapterId ?? -1) - (y.adapterId ?? -1));
    this.#numInFlightSteps += 1;
    const releasedRequestIds = this.#slots.drainReleased();
    const numTokens = sequences.reduce((sum, sequence) => sum + sequence.tokenIds.length, 0);
    return { releasedRequestIds, sequences, numTokens, tileWork };
  }

  /**
   * Whether steps in flight sample what the next step depends on: they verify a draft, or the token that a draft would
   * follow. Then all wait for it: a request that missed a step would lose more than the others do.
   */
  #mustVerifyFirst(): boolean {
    const speculator = this.#speculator;
    if (speculator === null || this.#numInFlightSteps === 0 || this.#numStages > 1) return false;
    const { running } = this.#slots;
    if (running.some(({ draft }) => draft.length > 0)) return true;
    const counts = running.map(({ numTokensToCompute }) => numTokensToCompute);
    const maxTokens = this.#maxDraftTokens(counts, this.#config.maxNumBatchedTokens);
    if (maxTokens === 0) return false;
    return running.some(
      (request) =>
        request.numPendingTokens > 0 &&
        this.#maxDraftTokensOf(request) > 0 &&
        speculator.expectsDraft(request),
    );
  }

  /** Most tokens of each draft in a step of up to `maxTokens` tokens that computes `counts` known ones of the running requests. */
  #maxDraftTokens(counts: readonly number[], maxTokens: number): number {
    if (this.#speculator === null || counts.length === 0) return 0;
    const numRows = counts.reduce((sum, count) => sum + count, 0);
    const budget = Math.floor((maxTokens - numRows) / counts.length);
    return Math.max(0, Math.min(budget, this.#speculator.maxDraftTokens(numRows, counts.length)));
  }

  /** A draft ends where the request outgrows the short contexts. */
  #maxDraftTokensOf({ tokens, isLong, maxDraftTokens }: Request): number {
    const { shortContext = null } = this.#config;
    if (shortContext === null || isLong) return maxDraftTokens;
    return Math.min(maxDraftTokens, Math.max(0, shortContext - tokens.length));
  }

  /** What each request computes; null where that must wait for a step in flight. */
  #planSequences(): ScheduledSequence[] | null {
    const scheduled = new Map<Request, number>();
    const { preemptions } = this.#slots.stats;
    const share = this.#shareOfStep();
    let budget = this.#planRunning(scheduled, share);
    if (budget === null) return null;
    const maxDraftTokens = this.#maxDraftTokens([...scheduled.values()], share.maxTokens);
    const sequences: ScheduledSequence[] = [];
    this.#makeDrafts(scheduled, maxDraftTokens);
    for (const [request, numTokens] of scheduled) {
      budget -= request.draft.length;
      this.#scheduleTokens(request, numTokens, sequences);
    }
    const hasRoom = this.#slots.stats.preemptions === preemptions || sequences.length === 0;
    if (hasRoom) this.#admitWaiting({ ...share, maxTokens: budget }, sequences);
    return sequences;
  }

  get #seesWholeImages(): boolean {
    return (this.#config.wholeImageTokens ?? null) !== null;
  }

  get #numStages(): number {
    return this.#config.pipelineParallelSize ?? 1;
  }

  #shareOfStep(): StepShare {
    const { running, numWaitingTokens, stats } = this.#slots;
    return shareOfStep(
      { running, numWaiting: stats.waiting, numWaitingTokens },
      this.#numStages,
      this.#config,
    );
  }

  /** Guesses what follows those of `scheduled` that reach their last token and know it. Nobody gives up blocks for it. */
  #makeDrafts(scheduled: ReadonlyMap<Request, number>, maxTokens: number): void {
    if (this.#speculator === null) return;
    const wishes: { readonly sequence: Request; readonly maxTokens: number }[] = [];
    for (const [request, numTokens] of scheduled) {
      const { numPendingTokens, numComputedTokens, tokens } = request;
      const most = Math.min(maxTokens, this.#maxDraftTokensOf(request));
      const isAtEnd = numPendingTokens === 0 && numComputedTokens + numTokens === tokens.length;
      if (isAtEnd && most > 0) wishes.push({ sequence: request, maxTokens: most });
    }
    const drafts = this.#speculator.propose(wishes);
    for (const { sequence: request } of wishes) {
      const draft = request.allowedDraft(drafts.get(request.id) ?? NO_DRAFT);
      const hasBlocks = this.#kvCache.grow(request, request.tokens.length + draft.length);
      const numBlocked = this.#kvCache.numTokensWithBlocks(request) - request.tokens.length;
      request.draft = hasBlocks ? draft : draft.slice(0, numBlocked);
    }
  }

  /**
   * Plans tokens of the running requests into `scheduled`.
   * @returns what is left of the budget; null where blocks are short and steps are in flight: the requests that they
   * finish give blocks back.
   */
  #planRunning(scheduled: Map<Request, number>, { maxSequences, maxTokens }: StepShare): number | null {
    let left = maxTokens;
    for (const request of [...this.#slots.running]) {
      if (left === 0 || scheduled.size === maxSequences) break;
      const numTokens = this.#numTokensWithin(left, request);
      // It may have given up its blocks to one before it.
      if (request.state !== 'running' || numTokens === 0) continue;
      if (this.#outgrows(request, request.numComputedTokens + numTokens)) {
        // Its tokens are all known when it is computed again.
        if (this.#numInFlightSteps > 0) return null;
        this.#slots.restartLong(request);
        continue;
      }
      const hasBlocks = this.#kvCache.grow(request, request.numComputedTokens + numTokens);
      if (!hasBlocks && this.#numInFlightSteps > 0) return null;
      if (!hasBlocks) left += this.#makeRoom(request, numTokens, scheduled);
      if (request.state !== 'running') continue;
      scheduled.set(request, numTokens);
      left -= numTokens;
    }
    return left;
  }

  /** Whether `numTokens` tokens are too many for a request that has been computed as a short context. */
  #outgrows({ isLong }: Request, numTokens: number): boolean {
    const { shortContext = null } = this.#config;
    return shortContext !== null && !isLong && numTokens > shortContext;
  }

  /** How many tokens of a request a step computes that has room for `left`. What it must see of its images before is planned, too. */
  #numTokensWithin(left: number, request: Request): number {
    const { numTokensToCompute, numKnownTokensToCompute, mostTokensOfStep } = request;
    const wanted = this.#numStages > 1 ? numKnownTokensToCompute : numTokensToCompute;
    const count = Math.min(wanted, mostTokensOfStep);
    if (this.#config.computesWholePrompts) return count <= left ? count : 0;
    const first = request.numComputedTokens;
    const most = first + Math.min(count, left);
    const end = this.#seesWholeImages ? request.images.endBetween(first, most) : most;
    return (this.#encoder?.see(request.images, first, end) ?? end) - first;
  }

  /**
   * Finds blocks for the next `numTokens` tokens of a running request: others give up theirs, at worst `request` itself.
   * @returns tokens of this step's budget that preempted requests gave back.
   */
  #makeRoom(request: Request, numTokens: number, scheduled: Map<Request, number>): number {
    let returned = 0;
    while (!this.#kvCache.grow(request, request.numComputedTokens + numTokens)) {
      const victim = this.#slots.preemptOne();
      returned += scheduled.get(victim) ?? 0;
      scheduled.delete(victim);
      if (victim === request) break;
    }
    return returned;
  }

  #admitWaiting({ maxSequences, maxTokens }: StepShare, sequences: ScheduledSequence[]): void {
    let left = maxTokens;
    while (sequences.length < maxSequences) {
      const request = this.#slots.admitNext(left);
      if (request === null) return;
      if (request.state !== 'running') continue;
      const numTokens = this.#numTokensWithin(left, request);
      if (numTokens > 0) this.#scheduleTokens(request, numTokens, sequences);
      left -= numTokens;
    }
  }

  /**
   * Plans the next `numTokens` tokens and counts them as computed, so that the next step can be planned, and so that
   * requests admitted later can share its blocks: a layer stores all keys before it reads any.
   */
  #scheduleTokens(request: Request, numTokens: number, sequences: ScheduledSequence[]): void {
    const { tokens, tables, draft, numComputedTokens: firstPosition, numScheduledBlocks } = request;
    const end = firstPosition + numTokens;
    const isPending = firstPosition >= tokens.length;
    const reachesEnd = end === tokens.length + request.numPendingTokens;
    request.numComputedTokens += numTokens;
    request.numInFlightSteps += 1;
    if (reachesEnd) request.numPendingTokens += 1;
    request.numScheduledBlocks = tables.map(({ blocks }) => blocks.length);
    this.#publish(request, firstPosition);
    const areStatesSent = this.#transfers.sendsStates(request, firstPosition);
    const images = request.images.among(firstPosition, end);
    const wholeRanges = this.#seesWholeImages ? request.images.rangesAmong(firstPosition, end) : [];
    const positionLag = request.images.positionLagAt(firstPosition);
    sequences.push({
      requestId: request.id,
      adapterId: request.adapterId,
      tokenIds: isPending ? [PENDING_TOKEN] : [...tokens.slice(firstPosition, end), ...draft],
      firstPosition,
      isLong: request.isLong,
      numDraftTokens: draft.length,
      newBlocks: tables.map(({ blocks }, group) => blocks.slice(numScheduledBlocks?.[group])),
      sampling: reachesEnd && request.pooling === null ? request.sampling : null,
      pooling: reachesEnd ? request.pooling : null,
      ...(images.length > 0 && { images }),
      ...(wholeRanges.length > 0 && { wholeRanges }),
      ...(positionLag > 0 && { positionLag }),
      promptLogprobs: takePromptTargets(request, firstPosition),
      resumedLogprobs: takeResumedTargets(request, firstPosition),
      send: this.#transfers.takeCompleted(request, areStatesSent),
      states: this.#kvCache.planStates(request, firstPosition, end, areStatesSent),
    });
  }

  /** Lets others find the blocks that hold known tokens from `firstPosition` on and are planned to be computed. */
  #publish(request: Request, firstPosition: number): void {
    const numKnown = Math.min(request.numComputedTokens, request.tokens.length);
    this.#kvCache.publish(request, numKnown, firstPosition);
  }

  /** Whether `logitEdits` of `step`, which was planned last, depends on tokens that steps before it still sample. */
  needsPendingTokens(step: ScheduledStep): boolean {
    return step.sequences.some(({ requestId, sampling }) => {
      const request = this.#requests.get(requestId)!;
      // One of the pending tokens is the step's own.
      return sampling !== null && request.editsDependOnOutput && request.numPendingTokens > 1;
    });
  }

  /** How each row of logits that `step` samples from is changed, in the order of its sequences, once no pending tokens are needed. */
  logitEdits(step: ScheduledStep): (RowEdits | null)[] {
    return step.sequences.flatMap((sequence) => {
      const request = this.#requests.get(sequence.requestId)!;
      // What the step that was planned last samples is the last token that is pending, unless that is known.
      const isSampled =
        sequence.sampling !== null && request.state !== 'finished' && request.numPendingTokens > 0;
      return isSampled ? request.logitEdits() : new Array<null>(numSampledRows(sequence)).fill(null);
    });
  }

  /** Takes the results of `step`, the oldest in flight. @returns what each request got that got something. */
  update(step: ScheduledStep, result: StepResult): TokenOutput[] {
    const outputs: TokenOutput[] = [];
    this.#numInFlightSteps -= 1;
    for (const [index, sequence] of step.sequences.entries()) {
      const { requestId, firstPosition, tokenIds, numDraftTokens } = sequence;
      const request = this.#requests.get(requestId)!;
      request.numInFlightSteps -= 1;
      if (request.state === 'finished') {
        this.#releaseIfIdle(request);
        continue;
      }
      if (sequence.states?.move) this.#kvCache.freeStateBlocks(request);
      // Steps in flight begin behind it. What is being sent has one more user.
      this.#kvCache.freeUnseen(request, firstPosition + tokenIds.length - numDraftTokens);
      request.promptLogprobs.push(...result.promptLogprobs[index]!);
      request.resumedLogprobs.push(...result.resumedLogprobs[index]!);
      const output = result.outputs[index]!;
      if (output === null) continue;
      if (request.numKnownResults > 0) {
        request.numKnownResults -= 1;
        continue;
      }
      request.numPendingTokens -= 1;
      if (output.kind === 'brokenLogits') outputs.push(this.#fail(request, 'brokenLogits'));
      else if (output.kind === 'pooled') outputs.push(this.#endPooled(request, output.values));
      else this.#takeTokens(request, output, outputs);
    }
    return outputs;
  }

  #endPooled(request: Request, pooled: Float32Array): TokenOutput {
    const { id: requestId, numCachedTokens, admission } = request;
    this.#countPrompt(request);
    this.#finish(request);
    const finish = { reason: 'stop', stopTokenId: null } as const;
    return { requestId, ...NO_TOKENS, pooled, numCachedTokens, admission, finish };
  }

  #takeTokens(request: Request, output: TokensOutput, outputs: TokenOutput[]): void {
    const numAccepted = this.#verifyDraft(request, output);
    if (request.refusal !== null) {
      outputs.push(this.#fail(request, request.refusal));
      return;
    }
    this.#emitResumed(request, outputs);
    for (const [index, tokenId] of output.tokenIds.entries()) {
      this.#takeToken(
        request,
        tokenId,
        { isComputed: index < numAccepted, logprobs: output.logprobs?.[index] ?? null },
        outputs,
      );
    }
    if (request.state === 'finished') return;
    const forced = request.forcedTokens();
    request.expectKnownResults(forced.length);
    for (const tokenId of forced)
      this.#takeToken(request, tokenId, { isComputed: false, logprobs: null }, outputs);
  }

  /** One after the other, until one of them ends the request. */
  #takeToken(
    request: Request,
    tokenId: number,
    { isComputed, logprobs }: { readonly isComputed: boolean; readonly logprobs: Logprobs | null },
    outputs: TokenOutput[],
  ): void {
    if (request.state === 'finished') return;
    request.append(tokenId);
    if (request.refusal !== null) {
      outputs.push(this.#fail(request, request.refusal));
      return;
    }
    if (isComputed) request.numComputedTokens += 1;
    // Where this step or one in flight computes this very token, the block that it completes can be named now.
    this.#publish(request, request.tokens.length - 1);
    outputs.push(this.#emit(request, tokenId, logprobs));
  }

  /** Before its first new token a request emits those that it resumes; one of them may end it. */
  #emitResumed(request: Request, outputs: TokenOutput[]): void {
    const { promptLength, numResumed, resumedLogprobs, tokens } = request;
    while (request.numOutputTokens < numResumed && request.state !== 'finished') {
      const index = request.numOutputTokens;
      outputs.push(this.#emit(request, tokens[promptLength + index]!, resumedLogprobs[index] ?? null));
    }
  }

  /** @returns how many of the new tokens were in the request's draft and are computed. */
  #verifyDraft(request: Request, { tokenIds }: TokensOutput): number {
    const numDraftTokens = request.takeDraft();
    if (this.#speculator === null || numDraftTokens === 0) return 0;
    this.#speculator.verified(request, numDraftTokens, tokenIds.length - 1);
    return tokenIds.length - 1;
  }

  /** @param logprobs one row */
  #emit(request: Request, tokenId: number, logprobs: Logprobs | null): TokenOutput {
    const { id: requestId, numCachedTokens } = request;
    const isFirst = request.numOutputTokens === 0;
    request.numOutputTokens += 1;
    if (isFirst) this.#countPrompt(request);
    this.#totals.generationTokens += 1;
    const wantsPrompt = isFirst && request.numPromptLogprobs !== null;
    const finish =
      checkStop(request.stop, tokenId, request.numOutputTokens, request.isOver) ??
      (request.isRepeating ? REPETITION : null);
    if (finish !== null) this.#finish(request);
    return {
      requestId,
      tokenIds: [tokenId],
      logprobs,
      promptLogprobs: wantsPrompt ? request.promptLogprobs.splice(0) : null,
      numCachedTokens,
      admission: isFirst ? request.admission : null,
      finish,
    };
  }

  #countPrompt({ promptLength, numCachedTokens, numLoadedTokens }: Request): void {
    this.#totals.promptTokens += promptLength;
    this.#totals.cachedPromptTokens += numCachedTokens;
    this.#totals.loadedPromptTokens += numLoadedTokens;
  }

  /** Others go on: what is wrong with this request's logits is in its own row. */
  #fail(request: Request, reason: Finish['reason']): TokenOutput {
    this.#finish(request);
    const { id: requestId, numCachedTokens } = request;
    const finish = { reason, stopTokenId: null };
    return { requestId, ...NO_TOKENS, numCachedTokens, admission: null, finish };
  }

  /** Forgets every cached prefix. @returns false, with nothing changed, while requests run or load. */
  resetPrefixCache(): boolean {
    const { running, loading } = this.#slots.stats;
    if (running + loading > 0) return false;
    this.#kvCache.reset();
    return true;
  }

  #finish(request: Request): void {
    this.#slots.leave(request);
    this.#speculator?.forget(request.id);
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
    this.#slots.freeBlocks(request);
  }
}
