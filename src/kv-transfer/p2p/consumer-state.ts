// A transfer at the consumer (D) as plain data: its state, its events and their effects.

import type { RecomputeReason } from '../connector.ts';
import type { Answer } from './messages.ts';
import type { PeerError } from './peer.ts';
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

/** One sequence that is to have the blocks; it asks at most once. */
export interface SampleLoad {
  readonly transferId: number;
  /** idle: it has not asked. wanted: it waits. loading: blocks are being copied. done: answered, or gone. */
  readonly state: 'idle' | 'wanted' | 'loading' | 'done';
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
  /** The answer to `closeBuffer`; `nextTicket` is a fresh one. */
  | { kind: 'bufferClosed'; nextTicket: bigint }
  /** The answer to `pull`. */
  | { kind: 'answered'; ticket: bigint; answer: Answer | PeerError['code'] }
  /** The answer to `pullLater`. */
  | { kind: 'pullAgain'; ticket: bigint }
  /** All blocks have come, or one that is damaged. */
  | { kind: 'received'; ticket: bigint }
  | { kind: 'corrupt'; ticket: bigint }
  /** The answer to `load`. */
  | { kind: 'copied'; transferId: number; isIntact: boolean }
  /** Time has passed. */
  | { kind: 'tick'; progress: number }
>;

export type ConsumerEffect = Readonly<
  | { kind: 'takeSlots'; firstBlock: number; count: number }
  | { kind: 'giveSlots'; slots: Slots }
  | { kind: 'openBuffer'; buffer: ReceiveBuffer }
  | { kind: 'closeBuffer'; ticket: bigint }
  /** Ask P for the blocks from `firstBlock` on, of `numBlocks` in all. */
  | { kind: 'pull'; ticket: bigint; firstBlock: number; numBlocks: number }
  | { kind: 'pullLater'; ticket: bigint }
  /** Copy the blocks from `firstBlock` on out of the buffer into `blocks`. */
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
