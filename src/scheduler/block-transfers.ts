// KV blocks that come from other instances and go to them, for the scheduler: the loads that sequences wait for, the blocks
// that a step completes for others, and those that must stay as they are until they have been read.

import { type BlockGroups, numTransferred, transferBlocks } from '../kv-cache/block-groups.ts';
import type { KvCacheManager } from '../kv-cache/kv-cache-manager.ts';
import type { KvTransferEvent } from '../kv-transfer/connector.ts';
import type { Request } from './request.ts';
import type { BlockSend } from './scheduled-step.ts';

/** Never answers before it returns: what it hears is true once the scheduler has gone on. */
export type OnTransferEvent = (event: KvTransferEvent) => void;

export class BlockTransfers {
  readonly #kvCache: KvCacheManager;
  readonly #groups: BlockGroups;
  /** By transfer: requests whose load is under way; they may have ended since. */
  readonly #loads = new Map<number, Request>();
  /** By transfer: blocks held for sending; a transfer without an entry holds no more of them. */
  readonly #holds = new Map<number, number[]>();
  /** Gets what the connector must know, as soon as it is known. */
  readonly #onEvent: OnTransferEvent;
  #numHeldBlocks = 0;

  constructor(kvCache: KvCacheManager, groups: BlockGroups, onEvent: OnTransferEvent) {
    this.#kvCache = kvCache;
    this.#groups = groups;
    this.#onEvent = onEvent;
  }

  /** Blocks held for sending; one that two transfers hold counts twice. */
  get numHeldBlocks(): number {
    return this.#numHeldBlocks;
  }

  add({ transfer }: Request): void {
    if (transfer?.kind === 'send') this.#holds.set(transfer.transferId, []);
  }

  /**
   * Asks for the prompt's blocks after the `numCachedTokens` cached tokens.
   * @returns false where at most one block is missing, or a resumed answer is computed otherwise than its prompt was: it is
   *   computed here.
   */
  requestLoad(request: Request, numCachedTokens: number): boolean {
    const { transfer, promptLength } = request;
    if (transfer?.kind !== 'load') return false;
    const { transferId } = transfer;
    const { blockSize } = this.#groups;
    if (promptLength - numCachedTokens <= blockSize || request.hasOutgrownPrompt) {
      this.#onEvent({ kind: 'loadEnded', transferId });
      return false;
    }
    const end = Math.ceil(promptLength / blockSize);
    const blocks = [...this.#blocksOf(request, promptLength - 1, 0, end), ...request.states.blocks];
    const firstBlock = numTransferred(this.#groups, promptLength - 1, numCachedTokens / blockSize);
    this.#onEvent({ kind: 'load', transferId, firstBlock, blocks });
    this.#loads.set(transferId, request);
    return true;
  }

  /** Nothing writes into its blocks any more. @returns null where no such load is under way. */
  endLoad(transferId: number): Request | null {
    const request = this.#loads.get(transferId) ?? null;
    this.#loads.delete(transferId);
    return request;
  }

  /** Whether the states that a step from `firstPosition` on begins with are those that another instance wants. */
  sendsStates({ transfer, states, hasSentStates }: Request, firstPosition: number): boolean {
    if (transfer?.kind !== 'send' || hasSentStates || states.blocks.length === 0) return false;
    return firstPosition === transfer.numTokens && this.#holds.has(transfer.transferId);
  }

  /** Holds the blocks of the transfer that the planned tokens complete, and where `areStatesSent` those of its states. */
  takeCompleted(request: Request, areStatesSent: boolean): BlockSend | null {
    const { transfer, numComputedTokens, numBlocksSent } = request;
    if (transfer?.kind !== 'send') return null;
    const held = this.#holds.get(transfer.transferId);
    if (held === undefined) return null;
    const { transferId, numTokens } = transfer;
    const isComplete = numComputedTokens >= numTokens;
    const end = isComplete
      ? Math.ceil(numTokens / this.#groups.blockSize)
      : Math.floor(numComputedTokens / this.#groups.blockSize);
    if (end <= numBlocksSent && !areStatesSent) return null;
    const ofStates = areStatesSent ? request.states.blocks : [];
    const blocks = [...this.#blocksOf(request, numTokens, numBlocksSent, end), ...ofStates];
    const firstIndex = numTransferred(this.#groups, numTokens, numBlocksSent);
    this.#kvCache.hold(blocks);
    held.push(...blocks);
    this.#numHeldBlocks += blocks.length;
    request.numBlocksSent = end;
    request.hasSentStates ||= areStatesSent;
    if (blocks.length === 0) return null;
    return { transferId, firstIndex, blocks };
  }

  /** The blocks of a transfer have been read, or nobody wants them: it holds no more. */
  release(transferId: number): void {
    const held = this.#holds.get(transferId);
    if (held === undefined) return;
    this.#holds.delete(transferId);
    this.#kvCache.release(held);
    this.#numHeldBlocks -= held.length;
  }

  #blocksOf({ tables }: Request, numTokens: number, begin: number, end: number): number[] {
    const blocks = tables.map((table) => table.blocks);
    return transferBlocks(this.#groups, numTokens, blocks, begin, end);
  }

  /**
   * The request is over.
   * @returns false where a load still writes into its blocks: they are free after `endLoad`.
   */
  end({ transfer, state }: Request): boolean {
    if (transfer === null) return true;
    const { transferId } = transfer;
    if (transfer.kind === 'send') {
      if (this.#holds.get(transferId)?.length === 0) this.#holds.delete(transferId);
      return true;
    }
    if (state === 'waiting' || state === 'waitingForRemoteKv') {
      this.#onEvent({ kind: 'loadEnded', transferId });
    }
    return state !== 'waitingForRemoteKv';
  }
}
