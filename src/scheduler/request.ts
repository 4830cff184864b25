// One sequence on its way through the engine: its tokens, how many of them are computed, its blocks and its state.
// A request with n samples comes to the scheduler as n of these.

import type { PromptImage } from '../images/image-processor.ts';
import type { BlockTable, CachedSequence, SequenceStates } from '../kv-cache/kv-cache-manager.ts';
import type { BlockHash, ExtraKey } from '../kv-cache/prefix-hash.ts';
import type { SequenceTransfer } from '../kv-transfer/connector.ts';
import type { SequenceConstraint } from '../sampling/constrained-tokens.ts';
import { LogitHistory, type LogitRules, type Refusal, type RowEdits } from '../sampling/logit-rules.ts';
import type { Logprobs } from '../sampling/logprobs.ts';
import type { CompiledConstraint } from './automata.ts';
import { isRepeating, type RepetitionRule } from './repetition.ts';
import { RequestImages } from './request-images.ts';

/** `waitingForRemoteKv` holds its blocks and costs no step until another instance's KV is in them. */
export type RequestState = 'waiting' | 'waitingForRemoteKv' | 'running' | 'preempted' | 'finished';

const LEGAL_TRANSITIONS: Readonly<Record<RequestState, readonly RequestState[]>> = {
  waiting: ['waitingForRemoteKv', 'running', 'finished'],
  waitingForRemoteKv: ['running', 'preempted', 'finished'],
  running: ['preempted', 'finished'],
  preempted: ['running', 'finished'],
  finished: [],
};

/** How the tokens of a prompt's samples are drawn: numbers only, ready for the kernel. */
interface PromptSampling {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** Most probable tokens to report beside the sampled one; null reports nothing. */
  readonly numLogprobs: number | null;
  /** Tokens to report in their place; null or left out: none. */
  readonly logprobTokenIds?: readonly number[] | null;
}

/** How one sequence is sampled. */
export interface SequenceSampling extends PromptSampling {
  readonly seed: number;
  /** Which of the n samples of its request: part of the random stream's counter. */
  readonly sample: number;
}

/** What a pooling model must know of a sequence beside its tokens. */
export interface SequencePooling {
  /** Index of the first token of the second of two texts; null where the model does not tell them apart. */
  readonly secondTextStart: number | null;
}

/** When a sequence ends. Stop strings are not here: they are found where text is made. */
export interface StopRule {
  /** The end token; null where it is ignored or unknown. */
  readonly eosTokenId: number | null;
  readonly stopTokenIds: readonly number[];
  /** Before this many tokens only the length can end it. */
  readonly minTokens: number;
  readonly maxTokens: number;
  /** Null or left out where an answer may repeat itself. */
  readonly repetition?: RepetitionRule | null;
}

/** A prompt and what all samples of it have in common: plain data. */
export interface PromptRequest {
  readonly promptTokenIds: readonly number[];
  /** What the prompt's keys and values depend on beside its tokens, in the order of positions. */
  readonly extraKeys: readonly ExtraKey[];
  /** In the order of their positions. Left out where there are none. */
  readonly images?: readonly PromptImage[];
  readonly sampling: PromptSampling;
  /** The adapter that computes it, as the engine thread knows it; null is the model alone. */
  readonly adapterId: number | null;
  /** Null leaves the logits as they are. */
  readonly rules: LogitRules | null;
  /** What the answer must be; it comes with rules. Left out, it may be anything. */
  readonly constraint?: CompiledConstraint | null;
  /** Most probable tokens to report beside each token of the prompt; null reports nothing. */
  readonly numPromptLogprobs: number | null;
  readonly stop: StopRule;
  /** Lower is served earlier; 0 is usual. */
  readonly priority: number;
}

/** One sample of a prompt, as the engine thread gets it. With `numPromptLogprobs` every token of the prompt is computed. */
export interface NewRequest extends PromptRequest {
  readonly id: number;
  readonly sampling: SequenceSampling;
  /** The beginning of the answer, where it is known: emitted again as if it had just been sampled. */
  readonly resumedTokenIds: readonly number[];
  /** Who asked: callers take turns. 0 is a program with the engine to itself. */
  readonly caller: number;
  /** Which of the caller's requests it is a sample of: these take turns, too. */
  readonly group: number;
  /** Its part in the exchange of KV blocks with other instances. */
  readonly transfer: SequenceTransfer | null;
  /** Left out where tokens are wanted, not numbers. */
  readonly pooling?: SequencePooling | null;
}

/** How a request came to its first token; times are milliseconds by the engine thread's clock. */
export interface AdmissionRecord {
  readonly queuedAt: number;
  /** When it began to wait for another instance's KV; null where it did not. */
  readonly loadingAt: number | null;
  /** The last time before its first token. */
  readonly scheduledAt: number;
  /** Tokens of its prompt that neither the prefix cache nor another instance had. */
  readonly numPrefillTokens: number;
}

/** Keys and values of a long context are not those of a short one with the same tokens. */
const LONG_KEY: ExtraKey = { position: 0, key: ['context', 'long'] };

const NO_DRAFT: readonly number[] = [];
/** Most tokens that are taken at once because nothing else could come: what they cost the others is bounded. */
const MAX_FORCED = 64;

export class Request implements CachedSequence {
  readonly id: number;
  /** Requests that came before it since the engine began. */
  readonly arrival: number;
  readonly priority: number;
  readonly caller: number;
  readonly group: number;
  readonly promptLength: number;
  /** Tokens of the answer that were known from the beginning. */
  readonly numResumed: number;
  /** Tokens of the answer that have been emitted. */
  numOutputTokens = 0;
  readonly sampling: SequenceSampling;
  readonly stop: StopRule;
  readonly numPromptLogprobs: number | null;
  /** Index of the next prompt token whose log-probability is to be computed; nothing predicts the first one. */
  nextPromptTarget = 1;
  /** Those that are computed, in order, until they are emitted. */
  readonly promptLogprobs: Logprobs[] = [];
  /** The same for the resumed tokens, one row each. */
  nextResumedTarget = 0;
  readonly resumedLogprobs: Logprobs[] = [];
  readonly adapterId: number | null;
  readonly images: RequestImages;
  readonly transfer: SequenceTransfer | null;
  readonly pooling: SequencePooling | null;
  /** Blocks of each group that have been handed over to be sent; what is recomputed later is the same. */
  numBlocksSent = 0;
  readonly #history: LogitHistory | null;
  /** The prompt, then what was resumed, then what was sampled. */
  readonly tokens: number[];
  /** Tokens whose keys and values are in the cache or will be once the planned steps have run. */
  numComputedTokens = 0;
  /** Steps in flight that compute this request. */
  numInFlightSteps = 0;
  /** Tokens of this request that steps in flight sample. */
  numPendingTokens = 0;
  /** Of the next results of steps in flight so many are known already. */
  numKnownResults = 0;
  /** Tokens that are guessed ahead, which a step in flight verifies; they count as computed once they are accepted. */
  draft: readonly number[] = NO_DRAFT;
  numPreemptions = 0;
  readonly tables: BlockTable[] = [];
  readonly states: SequenceStates = { snapshot: null, ends: [], blocks: [], haveCome: false };
  /** Whether its states have been handed over to be sent. */
  hasSentStates = false;
  /** How many blocks of each group the executor knows from earlier steps; null where no step has had it yet. */
  numScheduledBlocks: readonly number[] | null = null;
  readonly blockHashes: BlockHash[] = [];
  #extraKeys: readonly ExtraKey[];
  /** Set where it is longer than this. */
  #outgrown: number | null = null;
  readonly #queuedAt = performance.now();
  #loadingAt: number | null = null;
  #scheduledAt = 0;
  #numCachedTokens: number | null = null;
  /** Prompt tokens that came from another instance. */
  numLoadedTokens = 0;
  #state: RequestState = 'waiting';

  /** @param constraint the sequence in the request's constraint, where it has one */
  constructor(request: NewRequest, arrival: number, constraint: SequenceConstraint | null = null) {
    this.id = request.id;
    this.arrival = arrival;
    this.priority = request.priority;
    this.caller = request.caller;
    this.group = request.group;
    this.promptLength = request.promptTokenIds.length;
    this.sampling = request.sampling;
    this.stop = request.stop;
    this.numPromptLogprobs = request.numPromptLogprobs;
    const { rules, promptTokenIds } = request;
    this.#history = rules === null ? null : new LogitHistory(rules, promptTokenIds, constraint);
    this.tokens = [...request.promptTokenIds];
    this.numResumed = request.resumedTokenIds.length;
    for (const tokenId of request.resumedTokenIds) this.append(tokenId);
    this.adapterId = request.adapterId;
    this.images = new RequestImages(request.images ?? []);
    this.transfer = request.transfer;
    this.pooling = request.pooling ?? null;
    this.#extraKeys = request.extraKeys;
  }

  get state(): RequestState {
    return this.#state;
  }

  get admission(): AdmissionRecord {
    return {
      queuedAt: this.#queuedAt,
      loadingAt: this.#loadingAt,
      scheduledAt: this.#scheduledAt,
      numPrefillTokens: this.promptLength - this.numCachedTokens - this.numLoadedTokens,
    };
  }

  get extraKeys(): readonly ExtraKey[] {
    return this.#extraKeys;
  }

  /** Whether it is computed as a context that is longer than the short ones of the model. */
  get isLong(): boolean {
    return this.#outgrown !== null;
  }

  /** Whether it is, and its prompt alone would not be. */
  get hasOutgrownPrompt(): boolean {
    return this.#outgrown !== null && this.promptLength <= this.#outgrown;
  }

  /** From now on it is, with more than `shortContext` tokens; nothing of it has been computed, or all of it is given up. */
  becomeLong(shortContext: number): void {
    this.#outgrown = shortContext;
    this.#extraKeys = [LONG_KEY, ...this.#extraKeys];
    this.blockHashes.length = 0;
  }

  get mayReadCache(): boolean {
    return this.numPromptLogprobs === null;
  }

  get numCacheableTokens(): number {
    const isScored = this.sampling.numLogprobs !== null && this.nextResumedTarget < this.numResumed;
    return (isScored ? this.promptLength : this.tokens.length) - 1;
  }

  get statesPassAt(): number | null {
    if (this.transfer?.kind === 'send') return this.hasSentStates ? null : this.transfer.numTokens;
    // What was preempted is not loaded again.
    return this.transfer?.kind === 'load' && this.state === 'waiting' ? Number.POSITIVE_INFINITY : null;
  }

  /** A step ends where its states are to be sent from: the next one begins with them. */
  get mostTokensOfStep(): number {
    const { statesPassAt, numComputedTokens } = this;
    const isBefore =
      this.states.blocks.length > 0 && statesPassAt !== null && numComputedTokens < statesPassAt;
    return isBefore ? statesPassAt - numComputedTokens : Number.POSITIVE_INFINITY;
  }

  /** Prompt tokens that came from the prefix cache when the request was first admitted. */
  get numCachedTokens(): number {
    return this.#numCachedTokens ?? 0;
  }

  /** The first `numComputedTokens` tokens need no computing; the first time, `ofPrompt` of them are reported as cached. */
  startFrom(numComputedTokens: number, ofPrompt: number): void {
    this.numComputedTokens = numComputedTokens;
    this.#numCachedTokens ??= ofPrompt;
    this.images.forgetSeen();
  }

  /** Tokens, known or pending, that no step computes yet; none after a pending token that ends the request by its length. */
  get numTokensToCompute(): number {
    return this.#isLastTokenPending ? 0 : this.tokens.length + this.numPendingTokens - this.numComputedTokens;
  }

  /** Those of them that are known. */
  get numKnownTokensToCompute(): number {
    return Math.max(0, this.tokens.length - this.numComputedTokens);
  }

  /** Most tokens of a draft after those that are known or pending: a step samples one more, the last one allowed at most. */
  get maxDraftTokens(): number {
    return Math.max(0, this.stop.maxTokens - this.#numAnswerTokens - 1);
  }

  get #isLastTokenPending(): boolean {
    return this.numPendingTokens > 0 && this.#numAnswerTokens >= this.stop.maxTokens;
  }

  /** Known or pending. */
  get #numAnswerTokens(): number {
    return this.tokens.length - this.promptLength + this.numPendingTokens;
  }

  /** Whether what is changed in the logits of its next token depends on the tokens before. */
  get editsDependOnOutput(): boolean {
    return this.#history?.dependsOnOutput ?? false;
  }

  /** Why a token came that its constraint does not allow, where one did. */
  get refusal(): Refusal | null {
    return this.#history?.refusal ?? null;
  }

  /** Whether the text of its constraint has ended. */
  get isOver(): boolean {
    return this.#history?.isOver ?? false;
  }

  get isNew(): boolean {
    return this.#numCachedTokens === null;
  }

  /** Whether the answer, as far as it has been emitted, ends in a pattern that is to end it. */
  get isRepeating(): boolean {
    const { repetition, minTokens } = this.stop;
    if (!repetition || this.numOutputTokens < minTokens) return false;
    return isRepeating(repetition, this.tokens, this.promptLength, this.promptLength + this.numOutputTokens);
  }

  append(tokenId: number): void {
    this.tokens.push(tokenId);
    this.#history?.append(tokenId);
  }

  /** How the logits of the next token are changed, and of one more for each token of the draft; null leaves them as they are. */
  logitEdits(): (RowEdits | null)[] {
    if (this.#history === null) return new Array<null>(1 + this.draft.length).fill(null);
    if (this.draft.length > 0) return this.#history.draftEdits(this.tokens, this.promptLength, this.draft);
    return [this.#history.edits(this.tokens, this.promptLength)];
  }

  /** The beginning of `draft` that the constraint allows. */
  allowedDraft(draft: readonly number[]): readonly number[] {
    return this.#history?.allowedDraft(draft) ?? draft;
  }

  /**
   * The tokens that must come next since its constraint allows no other: nothing needs to be computed to know them. None where
   * log-probabilities are wanted of them.
   */
  forcedTokens(): readonly number[] {
    if (this.#history === null || this.sampling.numLogprobs !== null) return [];
    return this.#history.forcedTokens(this.tokens, this.promptLength, MAX_FORCED);
  }

  /** Steps in flight sample the next tokens, of which `numTokens` are known: these are not pending any more. */
  expectKnownResults(numTokens: number): void {
    const numKnown = Math.min(this.numPendingTokens, numTokens);
    this.numPendingTokens -= numKnown;
    this.numKnownResults += numKnown;
  }

  /** Ends the verification of the draft. @returns how many tokens it had. */
  takeDraft(): number {
    const { length } = this.draft;
    this.draft = NO_DRAFT;
    return length;
  }

  moveTo(state: RequestState): void {
    if (!LEGAL_TRANSITIONS[this.#state].includes(state)) {
      throw new Error(`request ${this.id} cannot go from ${this.#state} to ${state}`);
    }
    if (state === 'waitingForRemoteKv') this.#loadingAt = performance.now();
    if (state === 'running' && this.numOutputTokens === 0) this.#scheduledAt = performance.now();
    this.#state = state;
  }
}
