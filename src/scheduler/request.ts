// One sequence on its way through the engine: its tokens, how many of them are computed, its blocks and its state.
// A request with n samples comes to the scheduler as n of these.

import type { BlockTable } from '../kv-cache/kv-cache-manager.ts';
import type { BlockHash } from '../kv-cache/prefix-hash.ts';
import type { SequenceTransfer } from '../kv-transfer/connector.ts';
import type { Logprobs } from '../ops/ops.ts';
import { LogitHistory, type LogitRules, type RowEdits } from '../sampling/logit-rules.ts';

/** `waitingForRemoteKv` holds its blocks and costs no step until another instance's KV is in them. */
export type RequestState = 'waiting' | 'waitingForRemoteKv' | 'running' | 'preempted' | 'finished';

const LEGAL_TRANSITIONS: Readonly<Record<RequestState, readonly RequestState[]>> = {
  waiting: ['waitingForRemoteKv', 'running', 'finished'],
  waitingForRemoteKv: ['running', 'finished'],
  running: ['preempted', 'finished'],
  preempted: ['running', 'finished'],
  finished: [],
};

/** How a sequence is sampled: numbers only, ready for the kernel. */
export interface SequenceSampling {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly seed: number;
  /** Which of the n samples of its request: part of the random stream's counter. */
  readonly sample: number;
  /** Most probable tokens to report beside the sampled one; null reports nothing. */
  readonly numLogprobs: number | null;
}

/** When a sequence ends. Stop strings are not here: they are found where text is made. */
export interface StopRule {
  /** The end token; null where it is ignored or unknown. */
  readonly eosTokenId: number | null;
  readonly stopTokenIds: readonly number[];
  /** Before this many tokens only the length can end it. */
  readonly minTokens: number;
  readonly maxTokens: number;
}

/** What the engine thread is given. */
export interface NewRequest {
  readonly id: number;
  readonly promptTokenIds: readonly number[];
  /** The beginning of the answer, where it is known: given out again as if it had just been sampled. */
  readonly resumedTokenIds: readonly number[];
  readonly sampling: SequenceSampling;
  /** Null leaves the logits as they are. */
  readonly rules: LogitRules | null;
  /** Most probable tokens to report beside each token of the prompt; null reports nothing. */
  readonly numPromptLogprobs: number | null;
  readonly stop: StopRule;
  /** Lower is served earlier; 0 is usual. */
  readonly priority: number;
  /** Who asked: callers take turns. 0 is a program with the engine to itself. */
  readonly caller: number;
  /** Which of the caller's requests it is a sample of: these take turns, too. */
  readonly group: number;
  readonly cacheSalt: string | null;
  /** False where every prompt token must be computed. */
  readonly mayReadCache: boolean;
  /** Its part in the exchange of KV blocks with other instances. */
  readonly transfer: SequenceTransfer | null;
}

/** When a sequence came and when it got its seat: milliseconds by the engine thread's clock. */
export interface AdmissionTimes {
  readonly queuedAt: number;
  /** The last time before its first token. */
  readonly scheduledAt: number;
}

export class Request implements BlockTable {
  readonly id: number;
  /** Requests that came before it since the engine began. */
  readonly arrival: number;
  readonly priority: number;
  readonly caller: number;
  readonly group: number;
  readonly promptLength: number;
  /** Tokens of the answer that were known from the beginning. */
  readonly numResumed: number;
  /** Tokens of the answer that have been given out. */
  numGivenTokens = 0;
  readonly sampling: SequenceSampling;
  readonly stop: StopRule;
  readonly numPromptLogprobs: number | null;
  /** Tokens of the prompt that are planned to be or have been compared with their logits. */
  numPromptTokensScored = 1;
  /** What came of that, in order, until it is given away. */
  readonly promptLogprobs: Logprobs[] = [];
  /** The same of the resumed tokens: how many, and one row each. */
  numResumedScored = 0;
  readonly resumedLogprobs: Logprobs[] = [];
  readonly transfer: SequenceTransfer | null;
  /** Blocks that have been handed over to be sent; what is recomputed later is the same. */
  numBlocksSent = 0;
  readonly #history: LogitHistory | null;
  /** The prompt, then what was resumed, then what was sampled. */
  readonly tokens: number[];
  /** Tokens whose keys and values are in the cache or will be once the planned steps have run. */
  numComputedTokens = 0;
  /** Planned steps that have not been answered, and those among them that sample a token of this request. */
  numStepsAhead = 0;
  numTokensAhead = 0;
  numPreemptions = 0;
  /** Where it stands in the last step that computes it. */
  place = 0;
  readonly blocks: number[] = [];
  readonly blockHashes: BlockHash[] = [];
  readonly cacheSalt: string | null;
  readonly mayReadCache: boolean;
  readonly #queuedAt = performance.now();
  #scheduledAt = 0;
  #numCachedTokens: number | null = null;
  #state: RequestState = 'waiting';

  constructor(request: NewRequest, arrival: number) {
    this.id = request.id;
    this.arrival = arrival;
    this.priority = request.priority;
    this.caller = request.caller;
    this.group = request.group;
    this.promptLength = request.promptTokenIds.length;
    this.sampling = request.sampling;
    this.stop = request.stop;
    this.numPromptLogprobs = request.numPromptLogprobs;
    this.#history = request.rules === null ? null : new LogitHistory(request.rules, request.promptTokenIds);
    this.tokens = [...request.promptTokenIds];
    this.numResumed = request.resumedTokenIds.length;
    for (const tokenId of request.resumedTokenIds) this.append(tokenId);
    this.transfer = request.transfer;
    this.cacheSalt = request.cacheSalt;
    this.mayReadCache = request.mayReadCache;
  }

  get state(): RequestState {
    return this.#state;
  }

  get admissionTimes(): AdmissionTimes {
    return { queuedAt: this.#queuedAt, scheduledAt: this.#scheduledAt };
  }

  get numCacheableTokens(): number {
    const isScored = this.sampling.numLogprobs !== null && this.numResumedScored < this.numResumed;
    return (isScored ? this.promptLength : this.tokens.length) - 1;
  }

  /** Prompt tokens that came from the prefix cache when the request was first admitted. */
  get numCachedTokens(): number {
    return this.#numCachedTokens ?? 0;
  }

  /** The first `numComputedTokens` tokens need no computing; `ofPrompt` of them are told as cached, the first time. */
  startFrom(numComputedTokens: number, ofPrompt: number): void {
    this.numComputedTokens = numComputedTokens;
    this.#numCachedTokens ??= ofPrompt;
  }

  /** Tokens that are known or being sampled and that no step computes yet. */
  get numTokensToCompute(): number {
    return this.#isLastTokenAhead ? 0 : this.tokens.length + this.numTokensAhead - this.numComputedTokens;
  }

  /** Whether the token that is being sampled ends the request by its length. */
  get #isLastTokenAhead(): boolean {
    const numAnswered = this.tokens.length - this.promptLength + this.numTokensAhead;
    return this.numTokensAhead > 0 && numAnswered >= this.stop.maxTokens;
  }

  get isNew(): boolean {
    return this.#numCachedTokens === null;
  }

  append(tokenId: number): void {
    this.tokens.push(tokenId);
    this.#history?.append(tokenId);
  }

  /** What the logits of the next token go through; null leaves them as they are. */
  logitEdits(): RowEdits | null {
    return this.#history?.edits(this.tokens, this.promptLength) ?? null;
  }

  moveTo(state: RequestState): void {
    if (!LEGAL_TRANSITIONS[this.#state].includes(state)) {
      throw new Error(`request ${this.id} cannot go from ${this.#state} to ${state}`);
    }
    if (state === 'running' && this.numGivenTokens === 0) this.#scheduledAt = performance.now();
    this.#state = state;
  }
}
