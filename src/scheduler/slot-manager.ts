// Which requests have a slot and blocks: who is let in, who gives up what it has for others, and who leaves. Whom the
// free slots go to is the order of the queue; whom a request without any takes one from is in victim.ts.

import type { KvCacheConfig, KvCacheManager } from '../kv-cache/kv-cache-manager.ts';
import type { BlockTransfers } from './block-transfers.ts';
import type { Request } from './request.ts';
import { RequestQueue } from './request-queue.ts';
import { SlotCounts } from './slot-counts.ts';
import { chooseVictim, chooseVictimsFor } from './victim.ts';

interface SlotLimits extends Pick<KvCacheConfig, 'blockSize' | 'enablePrefixCaching' | 'numSnapshots'> {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly shortContext?: number | null;
  readonly computesWholePrompts?: boolean;
}

export class SlotManager {
  readonly #limits: SlotLimits;
  readonly #kvCache: KvCacheManager;
  readonly #transfers: BlockTransfers;
  readonly #slots = new SlotCounts();
  readonly #waiting = new RequestQueue(this.#slots);
  readonly #running: Request[] = [];
  /** Those that are over while a step in flight still computes them. */
  readonly #ending = new Set<Request>();
  #releasedRequestIds: number[] = [];
  #numLoading = 0;
  readonly #totals = {
    preemptions: 0,
    prefixCacheQueries: 0,
    prefixCacheHits: 0,
    externalCacheQueries: 0,
    externalCacheHits: 0,
  };

  constructor(limits: SlotLimits, kvCache: KvCacheManager, transfers: BlockTransfers) {
    this.#limits = limits;
    this.#kvCache = kvCache;
    this.#transfers = transfers;
  }

  /** Requests that steps compute, in the order in which they were admitted. */
  get running(): readonly Request[] {
    return this.#running;
  }

  /** Tokens of the requests that wait for a slot. */
  get numWaitingTokens(): number {
    return this.#waiting.numTokens;
  }

  get stats() {
    const { length: running } = this.#running;
    return { running, waiting: this.#waiting.length, loading: this.#numLoading, ...this.#totals };
  }

  add(request: Request): void {
    this.#queue(request);
  }

  /**
   * Lets in each request that has no slot, that free slots and blocks are not enough for, and that another one, or
   * another caller, has at least two more slots than: those whose place it takes are preempted.
   * @returns false, with nothing changed, where somebody would have to be preempted and nobody may be.
   */
  admitNewcomers(mayPreempt: boolean): boolean {
    for (let found = this.#findNewcomer(); found !== null; found = this.#findNewcomer()) {
      if (!mayPreempt) return false;
      for (const victim of found.victims) this.#preempt(victim);
      this.#admit(found.newcomer, Number.POSITIVE_INFINITY);
    }
    return true;
  }

  /**
   * Lets in the next request of the queue, which may compute up to `maxNewTokens` tokens now.
   * @returns null where there is none, no slot or too few blocks for it, or where it had better wait for this step: those after it wait, too.
   */
  admitNext(maxNewTokens: number): Request | null {
    const request = this.#waiting.first;
    if (request === null || this.#numFreeSlots === 0) return null;
    if (maxNewTokens === 0 && !wantsLoad(request)) return null;
    if (this.#kvCache.awaitsStates(request)) return null;
    if (this.#limits.computesWholePrompts && request.tokens.length > maxNewTokens) return null;
    return this.#admit(request, maxNewTokens) ? request : null;
  }

  /** Takes all blocks from the running request that is to give way to the others. @returns that request. */
  preemptOne(): Request {
    const victim = chooseVictim(this.#running, this.#slots);
    this.#preempt(victim);
    return victim;
  }

  /** A running request, all of whose tokens are known, has outgrown the short contexts: it is computed again as a long one. */
  restartLong(request: Request): void {
    this.#preempt(request);
  }

  /** The first `numTokens` tokens have come; what a load does not bring is computed here. */
  endLoad(request: Request, numTokens: number): void {
    const { numComputedTokens: numCached, promptLength } = request;
    const numLoaded = Math.max(numCached, Math.min(numTokens, promptLength - 1));
    // It got no blocks for what only the tokens that were to come would have seen.
    if (!this.#kvCache.hasAllSeen(request, numLoaded)) {
      this.#preempt(request);
      return;
    }
    request.numComputedTokens = numLoaded;
    request.numLoadedTokens = numLoaded - numCached;
    this.#totals.externalCacheHits += request.numLoadedTokens;
    this.#kvCache.publish(request, numLoaded, numCached);
    this.#kvCache.endStateLoad(request, numLoaded > numCached);
    this.#numLoading -= 1;
    request.moveTo('running');
    this.#running.push(request);
  }

  /** The request is over: it gives up its slot, or its place in the queue. Its blocks stay. */
  leave(request: Request): void {
    if (request.state === 'running') this.#running.splice(this.#running.indexOf(request), 1);
    else if (request.state === 'waitingForRemoteKv') this.#numLoading -= 1;
    else {
      this.#waiting.remove(request);
      return;
    }
    this.#slots.giveBack(request);
    if (request.numInFlightSteps > 0) this.#ending.add(request);
  }

  freeBlocks(request: Request): void {
    this.#kvCache.free(request);
    this.#ending.delete(request);
    if (request.numScheduledBlocks !== null) this.#releasedRequestIds.push(request.id);
    request.numScheduledBlocks = null;
  }

  /** Requests that the executor has block tables of and that have none any more; each is told once. */
  drainReleased(): readonly number[] {
    const released = this.#releasedRequestIds;
    this.#releasedRequestIds = [];
    return released;
  }

  #findNewcomer(): { readonly newcomer: Request; readonly victims: readonly Request[] } | null {
    const { mostOfCaller, mostOfGroup } = this.#slots;
    for (const newcomer of this.#waiting.firstWithoutSlot()) {
      // Nobody has a slot to give to it, which is so for most of a thousand callers at each step.
      if (mostOfGroup < 2 && mostOfCaller < this.#slots.ofCaller(newcomer.caller) + 2) continue;
      if (this.#isWithinReach(newcomer)) continue;
      // Room for its whole prompt, so that it need not give way again before its first token.
      const victims = chooseVictimsFor(newcomer, this.#running, this.#slots, (leaving) =>
        this.#kvCache.canAdmit(newcomer, Number.POSITIVE_INFINITY, leaving, numToLoad(newcomer)),
      );
      if (victims !== null) return { newcomer, victims };
    }
    return null;
  }

  /** Whether free slots go as far as to this request, and blocks to the next one and to this. */
  #isWithinReach(request: Request): boolean {
    const { maxNumBatchedTokens } = this.#limits;
    if (this.#numFreeSlots === 0 || this.#waiting.numAheadOf(request) >= this.#numFreeSlots) return false;
    return [this.#waiting.first!, request].every((one) =>
      this.#kvCache.canAdmit(
        one,
        wantsLoad(one) ? Number.POSITIVE_INFINITY : maxNumBatchedTokens,
        [],
        numToLoad(one),
      ),
    );
  }

  get #numFreeSlots(): number {
    const { maxNumSeqs, numSnapshots = null } = this.#limits;
    // States of layers are written until the last step that computes them is over.
    const numEnding = numSnapshots === null ? 0 : this.#ending.size;
    return maxNumSeqs - this.#running.length - this.#numLoading - numEnding;
  }

  /**
   * Gives a waiting request its slot, and blocks for as many of its tokens as are cached and up to `maxNewTokens` more.
   * @returns false, with nothing changed, where there are too few blocks.
   */
  #admit(request: Request, maxNewTokens: number): boolean {
    const isLoad = wantsLoad(request);
    const mostTokens = isLoad ? Number.POSITIVE_INFINITY : maxNewTokens;
    const numCachedTokens = this.#kvCache.admit(request, mostTokens, numToLoad(request));
    if (numCachedTokens === null) return false;
    this.#waiting.admit(request);
    this.#slots.take(request);
    this.#countPrefix(request, numCachedTokens);
    if (isLoad && this.#transfers.requestLoad(request, numCachedTokens)) {
      request.moveTo('waitingForRemoteKv');
      this.#totals.externalCacheQueries += request.promptLength - numCachedTokens;
      this.#numLoading += 1;
    } else {
      if (isLoad) this.#kvCache.endStateLoad(request, false);
      request.moveTo('running');
      this.#running.push(request);
    }
    return true;
  }

  #countPrefix(request: Request, numCachedTokens: number): void {
    const { blockSize, enablePrefixCaching } = this.#limits;
    // Of a resumed answer more may be found than a prompt alone would tell.
    const most = Math.floor((request.promptLength - 1) / blockSize) * blockSize;
    const ofPrompt = Math.min(numCachedTokens, most);
    if (request.isNew && enablePrefixCaching && request.mayReadCache) {
      this.#totals.prefixCacheQueries += request.promptLength;
      this.#totals.prefixCacheHits += ofPrompt;
    }
    request.startFrom(numCachedTokens, ofPrompt);
  }

  /** What waits has no blocks, so that it may be computed from now on as long as it has become. */
  #queue(request: Request): void {
    const { shortContext = null } = this.#limits;
    if (shortContext !== null && !request.isLong && request.tokens.length > shortContext)
      request.becomeLong(shortContext);
    this.#waiting.add(request);
  }

  /** Recompute later: all blocks go back, the tokens stay. */
  #preempt(request: Request): void {
    this.leave(request);
    this.freeBlocks(request);
    request.numComputedTokens = 0;
    request.numPreemptions += 1;
    request.moveTo('preempted');
    this.#queue(request);
    this.#totals.preemptions += 1;
  }
}

/** What was preempted is computed again: nobody sends it twice. */
function wantsLoad({ state, transfer }: Request): boolean {
  return state === 'waiting' && transfer?.kind === 'load';
}

/** Tokens of the prompt that a load would bring: all but the last one; none of a prompt that is computed otherwise than it was there. */
function numToLoad(request: Request): number {
  return wantsLoad(request) && !request.hasOutgrownPrompt ? request.promptLength - 1 : 0;
}
