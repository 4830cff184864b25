// A transfer at the consumer (D), from P's reservation or the request at D, whichever comes first, to the answers of the
// sequences that wait: its state, and a pure state machine. Whatever goes wrong, they are answered with 0 tokens, and D
// computes the prompt itself.

import {
  type BlockGroups,
  blocksForFewer,
  numTokenBlocks,
  tokensInFirst,
  transferSize,
} from '../../kv-cache/block-groups.ts';
import type { RecomputeReason } from '../connector.ts';
import type { Deadlines } from './deadlines.ts';
import type { Answer } from './messages.ts';
import type { PeerError } from './peers.ts';
import type { SlotLocation, Slots } from './slot-pool.ts';
import type { PeerEvent } from './transfers.ts';

/**
 * waiting: for slots. pulling: P has been asked for the blocks, or is about to be. arriving: blocks come, or will come
 * when P has computed them. received: all are here. over: nothing more comes.
 */
type ConsumerPhase = 'waiting' | 'pulling' | 'arriving' | 'received' | 'over';

/** Slots that native threads may write into under this ticket. */
export interface ReceiveBuffer {
  readonly slots: Slots;
  readonly ticket: bigint;
  /** The block of the transfer that comes into the first slot. */
  readonly firstBlock: number;
  /** The ticket is void, but native threads may still be writing. */
  readonly isClosing: boolean;
}

/** One sequence that is to have the blocks. It asks at most once, and gets its own blocks back with the answer. */
export interface SampleLoad {
  readonly transferId: number;
  /**
   * idle: it has not asked. wanted: it waits for a buffer. loading: native threads fill its blocks with what comes into
   * the buffer; the blocks are theirs until `copied`. ending: the same, but the sequence is over. done: answered, or gone.
   */
  readonly state: 'idle' | 'wanted' | 'loading' | 'ending' | 'done';
  readonly firstBlock: number;
  readonly blocks: readonly number[];
}

export interface ConsumerTransfer {
  readonly key: string;
  readonly hash: string;
  /** Control address of P. */
  readonly address: string;
  readonly numTokens: number;
  readonly phase: ConsumerPhase;
  /** Whether it began with P's reservation. */
  readonly isPushed: boolean;
  /** Its request is here. */
  readonly isClaimed: boolean;
  /** It has left the map of transfers; its slots may still be closing. */
  readonly isForgotten: boolean;
  readonly buffer: ReceiveBuffer | null;
  /** Empty until the request is here. */
  readonly samples: readonly SampleLoad[];
  readonly failure: RecomputeReason | null;
  /** P has said that it is still computing. */
  readonly isComputing: boolean;
  /** How often it was pulled again after something went wrong, and why the last time. */
  readonly retries: number;
  readonly retryReason: RecomputeReason | null;
  /** Milliseconds: when the request came, when blocks last came, and when slots began to be missing. */
  readonly claimedAt: number;
  readonly lastActivity: number;
  readonly waitingSince: number;
  /** Blocks of layers that had come when it was last looked at. */
  readonly progress: number;
}

export type ConsumerEvent = Readonly<
  | PeerEvent
  /** Its request is here, with sequences of these numbers. */
  | { kind: 'claimed'; transferIds: readonly number[] }
  /** A sequence wants the blocks from `firstBlock` on in its `blocks`. */
  | { kind: 'wanted'; transferId: number; firstBlock: number; blocks: readonly number[] }
  /** A sequence needs nothing (any more). */
  | { kind: 'unwanted'; transferId: number }
  /** The request is over, cancelled by the proxy, or computed here: nobody wants the blocks. */
  | { kind: 'ended' }
  /** P will not send. */
  | { kind: 'cancelledByPeer' }
  /** The answers to `takeSlots`; `ticket` is a fresh one. */
  | { kind: 'slotsTaken'; slots: Slots; firstBlock: number; ticket: bigint }
  | { kind: 'noSlots'; mayWait: boolean }
  /** Slots were given back: try again. */
  | { kind: 'slotsFreed' }
  /** The answer to `closeBuffer`, after those to all its loads; `nextTicket` is a fresh one. */
  | { kind: 'bufferClosed'; nextTicket: bigint }
  /** The answer to `pull`. */
  | { kind: 'answered'; ticket: bigint; answer: Answer | PeerError['code'] }
  /** The answer to `pullLater`. */
  | { kind: 'pullAgain'; ticket: bigint }
  /** All blocks have come; one is damaged, as it came or as it was copied. */
  | { kind: 'received'; ticket: bigint }
  | { kind: 'corrupt'; ticket: bigint }
  /** The answer to `load`: nothing writes into the blocks any more. False where not all came, or one was damaged. */
  | { kind: 'copied'; transferId: number; isIntact: boolean }
  /** Time has passed. */
  | { kind: 'tick'; progress: number }
>;

export type ConsumerEffect = Readonly<
  | { kind: 'takeSlots'; firstBlock: number; count: number }
  | { kind: 'giveSlots'; slots: Slots }
  | { kind: 'openBuffer'; buffer: ReceiveBuffer }
  /** Ends its loads, too. */
  | { kind: 'closeBuffer'; ticket: bigint }
  /** Ask P for the blocks from `firstBlock` on. */
  | { kind: 'pull'; ticket: bigint; firstBlock: number }
  | { kind: 'pullLater'; ticket: bigint }
  /** Copy the blocks from `firstBlock` on into `blocks`, as they come into the buffer. */
  | { kind: 'load'; transferId: number; ticket: bigint; firstBlock: number; blocks: readonly number[] }
  /** The answer to `wanted`; `numCopied` of the `numTokens` were copied out of the buffer. */
  | { kind: 'loaded'; transferId: number; numTokens: number; numCopied: number }
  | { kind: 'tellReceived'; isPushed: boolean; location: SlotLocation }
  | { kind: 'tellCancel' }
  /** The prompt is computed here. */
  | { kind: 'recompute'; reason: RecomputeReason }
  /** The key is free for another transfer. */
  | { kind: 'forget' }
>;

interface ConsumerRules {
  readonly deadlines: Deadlines;
  readonly groups: BlockGroups;
}

/** A transfer that went wrong is pulled once more. */
const MAX_RETRIES = 1;

/** What both instances know of a transfer. */
export type TransferDescription = Pick<ConsumerTransfer, 'key' | 'hash' | 'address' | 'numTokens'>;

/** A transfer that begins with its request; `claimed` follows. */
export function pulledTransfer(about: TransferDescription, now: number): ConsumerTransfer {
  return { ...about, ...BLANK, phase: 'pulling', isPushed: false, lastActivity: now };
}

/** A transfer that begins with P's reservation; its buffer is open. */
export function pushedTransfer(
  about: TransferDescription,
  buffer: ReceiveBuffer,
  now: number,
): ConsumerTransfer {
  return { ...about, ...BLANK, phase: 'arriving', isPushed: true, buffer, lastActivity: now };
}

const BLANK = {
  isClaimed: false,
  isForgotten: false,
  buffer: null,
  samples: [],
  failure: null,
  isComputing: false,
  retries: 0,
  retryReason: null,
  claimedAt: 0,
  waitingSince: 0,
  progress: 0,
} as const;

/** Whether blocks may still come. */
export function isExpected({ phase }: ConsumerTransfer): boolean {
  return phase === 'waiting' || phase === 'pulling' || phase === 'arriving';
}

/** The first block that some sequence lacks; the very first where not all have said so yet. */
export function firstMissing({ samples }: ConsumerTransfer): number {
  const isKnown = samples.every(({ state }) => state === 'wanted' || state === 'done');
  const wanted = samples.filter(({ state }) => state === 'wanted');
  return isKnown && wanted.length > 0 ? Math.min(...wanted.map(({ firstBlock }) => firstBlock)) : 0;
}

/** @param now in milliseconds. */
export function reduceConsumer(
  transfer: ConsumerTransfer,
  event: ConsumerEvent,
  now: number,
  rules: ConsumerRules,
): [ConsumerTransfer, readonly ConsumerEffect[]] {
  const draft = new Draft(transfer, now, rules);
  draft.apply(event);
  return [draft.transfer, draft.effects];
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type MutableSample = Mutable<SampleLoad>;

/** The next state and the effects of one event, while they are being worked out. */
class Draft {
  readonly transfer: Mutable<ConsumerTransfer> & { samples: readonly MutableSample[] };
  readonly effects: ConsumerEffect[] = [];
  readonly #now: number;
  readonly #rules: ConsumerRules;

  constructor(transfer: ConsumerTransfer, now: number, rules: ConsumerRules) {
    this.transfer = { ...transfer, samples: transfer.samples.map((sample) => ({ ...sample })) };
    this.#now = now;
    this.#rules = rules;
  }

  apply(event: ConsumerEvent): void {
    const { isClaimed, phase } = this.transfer;
    switch (event.kind) {
      case 'claimed':
        if (!isClaimed && phase !== 'over') this.#claim(event.transferIds);
        break;
      case 'wanted':
        this.#want(event.transferId, event);
        break;
      case 'unwanted':
        this.#endSample(this.#sample(event.transferId));
        break;
      case 'ended':
        if (isClaimed) this.#endSamples();
        else this.#forget(true);
        break;
      case 'cancelledByPeer':
        if (isClaimed) this.#lose(false);
        else this.#forget(false);
        break;
      case 'peerGone':
        // It may have been silent for too long, and lives.
        this.#lose(true);
        break;
      case 'peerRestarted':
        if (phase === 'arriving') this.#lose(false);
        break;
      case 'slotsTaken':
        this.#useSlots(event);
        break;
      case 'noSlots':
        this.#awaitSlots(event.mayWait);
        break;
      case 'slotsFreed':
        if (phase === 'waiting') this.#begin();
        break;
      case 'bufferClosed':
        this.#bufferClosed(event.nextTicket);
        break;
      case 'answered':
        if (this.#isPulling(event.ticket)) this.#answered(event.answer);
        break;
      case 'pullAgain':
        if (this.#isPulling(event.ticket)) this.#pull();
        break;
      case 'received':
        if (this.#isFilling(event.ticket)) this.#received();
        break;
      case 'corrupt':
        if (this.#isFilling(event.ticket)) this.#retry('corrupt');
        break;
      case 'copied':
        this.#copied(event.transferId, event.isIntact);
        break;
      case 'tick':
        this.#tick(event.progress);
        break;
    }
  }

  #claim(transferIds: readonly number[]): void {
    const { transfer } = this;
    transfer.isClaimed = true;
    transfer.claimedAt = this.#now;
    transfer.lastActivity = this.#now;
    const idle = { state: 'idle', firstBlock: 0, blocks: [] } as const;
    transfer.samples = transferIds.map((transferId) => ({ transferId, ...idle }));
    if (!transfer.isPushed) this.#begin();
  }

  /** Takes slots for the blocks that are missing, to pull them into. */
  #begin(): void {
    const firstBlock = firstMissing(this.transfer);
    if (this.#hasTokens(firstBlock)) this.#endSamples();
    else this.effects.push({ kind: 'takeSlots', firstBlock, count: this.#numBlocks - firstBlock });
  }

  #useSlots({ slots, firstBlock, ticket }: Extract<ConsumerEvent, { kind: 'slotsTaken' }>): void {
    const { transfer } = this;
    const isWanted = transfer.phase === 'pulling' || transfer.phase === 'waiting';
    if (!isWanted || transfer.buffer !== null) {
      this.effects.push({ kind: 'giveSlots', slots });
      return;
    }
    transfer.phase = 'pulling';
    this.#pullInto({ slots, ticket, firstBlock, isClosing: false });
  }

  #awaitSlots(mayWait: boolean): void {
    const { transfer } = this;
    if (transfer.phase !== 'pulling' || transfer.buffer !== null) return;
    if (!mayWait) {
      this.#fail('no_room', true);
      return;
    }
    transfer.phase = 'waiting';
    transfer.waitingSince = this.#now;
  }

  #pullInto(buffer: ReceiveBuffer): void {
    this.transfer.buffer = buffer;
    this.effects.push({ kind: 'openBuffer', buffer });
    this.#pull();
    for (const sample of this.transfer.samples) if (sample.state === 'wanted') this.#load(sample);
  }

  #close(): void {
    const { buffer } = this.transfer;
    if (buffer === null || buffer.isClosing) return;
    this.transfer.buffer = { ...buffer, isClosing: true };
    this.effects.push({ kind: 'closeBuffer', ticket: buffer.ticket });
  }

  /** What is pulled again comes into the same slots, where as many are needed as before; else they are free. */
  #bufferClosed(ticket: bigint): void {
    const { transfer } = this;
    if (!transfer.buffer?.isClosing) return;
    const { slots, firstBlock } = transfer.buffer;
    const isPulling = transfer.phase === 'pulling';
    if (isPulling && slots.offsets.length === this.#numBlocks - firstBlock) {
      this.#pullInto({ slots, ticket, firstBlock, isClosing: false });
    } else {
      transfer.buffer = null;
      this.effects.push({ kind: 'giveSlots', slots });
      if (isPulling) this.#begin();
    }
  }

  #pull(): void {
    const { buffer } = this.transfer;
    if (buffer === null) return;
    const { ticket, firstBlock } = buffer;
    this.effects.push({ kind: 'pull', ticket, firstBlock });
  }

  #answered(answer: Answer | PeerError['code']): void {
    const { transfer } = this;
    // It may be slow, and hold its blocks for the pull that it reads late.
    if (answer === 'gone') this.#fail('peer_gone', true);
    else if (answer === 'refused') this.#fail('mismatch', false);
    else if (answer.type !== 'pulled' || answer.state === 'mismatch') this.#fail('mismatch', true);
    else if (answer.state === 'gone') this.#fail(transfer.retryReason ?? 'unknown', false);
    else if (answer.state === 'unknown') this.#unknown();
    else if (answer.state === 'resized') this.#resized(answer.num_tokens);
    else {
      transfer.isComputing = answer.state === 'computing';
      transfer.phase = 'arriving';
      transfer.lastActivity = this.#now;
    }
  }

  /** Another proxy may call D before P: P is asked again for a while. */
  #unknown(): void {
    const { retries, retryReason, claimedAt, buffer } = this.transfer;
    const isLate = this.#now - claimedAt >= this.#rules.deadlines.unknown;
    if (retries > 0 || isLate || buffer === null) this.#fail(retryReason ?? 'unknown', false);
    else this.effects.push({ kind: 'pullLater', ticket: buffer.ticket });
  }

  /** P has fewer blocks than this prompt has: those are pulled. */
  #resized(numTokens: number): void {
    if (numTokens < 1 || numTokens >= this.transfer.numTokens) {
      this.#fail('mismatch', true);
      return;
    }
    this.transfer.numTokens = numTokens;
    this.#close();
  }

  #received(): void {
    const { transfer } = this;
    const { buffer } = transfer;
    if (buffer === null) return;
    transfer.phase = 'received';
    transfer.lastActivity = this.#now;
    const isPushed = transfer.isPushed && transfer.retries === 0;
    this.effects.push({ kind: 'tellReceived', isPushed, location: buffer.slots.location });
  }

  /** Something went wrong on the way: everything is pulled once more, under a new ticket. */
  #retry(reason: RecomputeReason): void {
    const { transfer } = this;
    const mayRetry = transfer.retries < MAX_RETRIES || (reason === 'late' && transfer.isComputing);
    if (!transfer.isClaimed) {
      // P has the blocks still, and is asked when the request comes.
      this.#forget(false);
    } else if (!mayRetry) {
      this.#fail(reason, true);
    } else {
      transfer.retries += 1;
      transfer.retryReason = reason;
      transfer.phase = 'pulling';
      this.#close();
    }
  }

  #want(transferId: number, { firstBlock, blocks }: Pick<SampleLoad, 'firstBlock' | 'blocks'>): void {
    const { transfer } = this;
    const known = this.#sample(transferId);
    // The request ended before the engine knew.
    if (known === undefined || known.state === 'done') {
      this.effects.push({ kind: 'loaded', transferId, numTokens: 0, numCopied: 0 });
    }
    if (known?.state !== 'idle') return;
    Object.assign(known, { state: 'wanted', firstBlock, blocks } as const);
    if (transfer.failure !== null) this.#answer(known, 0);
    else this.#load(known);
  }

  /** Gives the blocks that the sequence lacks to the native threads, where there is a buffer to fill them from. */
  #load(sample: MutableSample): void {
    const { buffer, numTokens } = this.transfer;
    if (buffer === null || buffer.isClosing) return;
    const { transferId, firstBlock } = sample;
    if (this.#hasTokens(firstBlock)) {
      this.#answer(sample, numTokens);
    } else if (firstBlock < buffer.firstBlock || sample.blocks.length < this.#numBlocks) {
      this.#answer(sample, 0);
    } else {
      sample.state = 'loading';
      const blocks = blocksForFewer(this.#rules.groups, numTokens, sample.blocks).slice(firstBlock);
      this.effects.push({ kind: 'load', transferId, ticket: buffer.ticket, firstBlock, blocks });
    }
  }

  #copied(transferId: number, isIntact: boolean): void {
    const { transfer } = this;
    const sample = this.#sample(transferId);
    if (sample?.state !== 'loading' && sample?.state !== 'ending') return;
    if (isIntact) {
      const { numTokens } = transfer;
      this.#answer(sample, numTokens, numTokens - this.#tokensBefore(sample.firstBlock));
    } else if (sample.state === 'ending' || transfer.phase === 'over') {
      this.#answer(sample, 0);
    } else {
      // It waits for the next buffer; but when all had arrived intact, P has let go of the blocks and cannot be asked again.
      sample.state = 'wanted';
      if (transfer.phase === 'received') this.#fail('corrupt', false);
    }
  }

  /** The request is over. */
  #endSamples(): void {
    for (const sample of this.transfer.samples) this.#endSample(sample);
  }

  /** Native threads write into the blocks of a sequence that is loading: it is answered when they have let go. */
  #endSample(sample: MutableSample | undefined): void {
    if (sample?.state === 'wanted') this.#answer(sample, 0);
    else if (sample?.state === 'idle') this.#settle(sample, 'done');
    else if (sample?.state === 'loading') this.#settle(sample, 'ending');
  }

  #answer(sample: MutableSample, numTokens: number, numCopied = 0): void {
    this.effects.push({ kind: 'loaded', transferId: sample.transferId, numTokens, numCopied });
    this.#settle(sample, 'done');
  }

  /** The transfer ends with the last sequence that needs it, and is forgotten when all are answered. */
  #settle(sample: MutableSample, state: 'ending' | 'done'): void {
    sample.state = state;
    const { samples, failure } = this.transfer;
    if (samples.every((one) => one.state === 'done')) this.#forget(failure === null);
    else if (samples.every((one) => one.state === 'done' || one.state === 'ending')) this.#end(true);
  }

  /** @param tells whether P has to hear of it. */
  #lose(tells: boolean): void {
    if (!isExpected(this.transfer)) return;
    if (this.transfer.isClaimed) this.#fail('peer_gone', tells);
    else this.#forget(false);
  }

  /** The prompt is computed here. @param tells whether P has to hear of it. */
  #fail(reason: RecomputeReason, tells: boolean): void {
    this.transfer.failure = reason;
    this.effects.push({ kind: 'recompute', reason });
    this.#end(tells);
    for (const sample of this.transfer.samples) if (sample.state === 'wanted') this.#answer(sample, 0);
  }

  /** Drops a transfer that no request has claimed, or whose sequences are all answered. */
  #forget(tells: boolean): void {
    if (this.transfer.isForgotten) return;
    this.#end(tells);
    this.transfer.isForgotten = true;
    this.effects.push({ kind: 'forget' });
  }

  /** Nothing more comes. */
  #end(tells: boolean): void {
    if (isExpected(this.transfer) && tells) this.effects.push({ kind: 'tellCancel' });
    this.transfer.phase = 'over';
    this.#close();
  }

  #tick(progress: number): void {
    const { transfer } = this;
    if (progress !== transfer.progress) transfer.lastActivity = this.#now;
    transfer.progress = progress;
    const { unclaimed, room, load, stall } = this.#rules.deadlines;
    const idleMs = this.#now - transfer.lastActivity;
    if (!transfer.isClaimed) {
      if (idleMs >= unclaimed) this.#forget(false);
    } else if (transfer.phase === 'waiting' && this.#now - transfer.waitingSince >= room) {
      this.#fail('no_room', true);
    } else if (isExpected(transfer) && this.#now - transfer.claimedAt >= load) {
      this.#fail('late', true);
    } else if (transfer.phase === 'arriving' && idleMs >= stall) {
      this.#retry('late');
    }
  }

  get #numBlocks(): number {
    return transferSize(this.#rules.groups, this.transfer.numTokens);
  }

  /** Whether a sequence has all tokens of the transfer that lacks the blocks from this one on: of their states it has no need. */
  #hasTokens(firstBlock: number): boolean {
    return firstBlock >= numTokenBlocks(this.#rules.groups, this.transfer.numTokens);
  }

  #tokensBefore(firstBlock: number): number {
    return tokensInFirst(this.#rules.groups, this.transfer.numTokens, firstBlock);
  }

  /** Whether blocks may come under this ticket. */
  #isFilling(ticket: bigint): boolean {
    const { buffer } = this.transfer;
    return isExpected(this.transfer) && buffer?.ticket === ticket && !buffer.isClosing;
  }

  /** Whether the answer to a pull under this ticket still matters. */
  #isPulling(ticket: bigint): boolean {
    return this.transfer.phase === 'pulling' && this.#isFilling(ticket);
  }

  #sample(transferId: number): MutableSample | undefined {
    return this.transfer.samples.find((sample) => sample.transferId === transferId);
  }
}
