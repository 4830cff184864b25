// One transfer at the producer (P) as plain data: its state, what can happen to it, and what can come of that. producer.ts
// says which follows from which.

import type { SendType } from '../../config/kv-transfer-config.ts';
import type { Answer } from './messages.ts';

/**
 * holding: the blocks wait for a pull. reserving: D is being asked for room. reserved: D has room, the prompt is not
 * computed yet (PUT). sending: blocks leave as they are computed, or have left. closing: native threads may still read
 * the blocks. closed: they can be reused.
 */
export type ProducerPhase = 'holding' | 'reserving' | 'reserved' | 'sending' | 'closing' | 'closed';

/** How a transfer ended. */
export type SendOutcome = 'delivered' | 'expired' | 'cancelled' | 'failed';

/** Where D lets P write, from which block of the transfer on. */
export interface Grant {
  readonly ticket: bigint;
  readonly firstBlock: number;
}

export interface SendDescription {
  /** Names it to the engine thread and to the native threads. */
  readonly transferId: number;
  readonly key: string;
  /** Control address of D. */
  readonly address: string;
  readonly numTokens: number;
  readonly numBlocks: number;
  readonly hash: string;
}

export interface ProducerTransfer extends SendDescription {
  readonly phase: ProducerPhase;
  readonly grant: Grant | null;
  /** The data link that the blocks leave by; null until there is one. */
  readonly link: number | null;
  /** Whether the link was made anew for this grant already. */
  readonly hasRelinked: boolean;
  /** All of the prompt is computed. */
  readonly isComputed: boolean;
  /** Whether the request can be answered when its prompt is computed: with PUT not before D has the blocks. */
  readonly mayAnswer: boolean;
  /** Since when the request waits with its answer, in milliseconds; null where it does not. */
  readonly answerWantedAt: number | null;
  /** When something last happened to it, in milliseconds. */
  readonly lastActivity: number;
}

export type ProducerEvent = Readonly<
  /** The answers to the reservation. */
  | { kind: 'answered'; answer: Answer }
  | { kind: 'reserveFailed' }
  /** D wants the blocks. */
  | { kind: 'pulled'; grant: Grant }
  /** D has all blocks. */
  | { kind: 'received' }
  /** The request, the proxy or D has given it up. */
  | { kind: 'cancelled' }
  | { kind: 'peerGone' }
  /** D has forgotten what it granted. */
  | { kind: 'peerRestarted' }
  /** The answer to `connect`; null where no link came about. */
  | { kind: 'linked'; ticket: bigint; link: number | null }
  | { kind: 'linkDown'; link: number }
  /** All blocks have left. */
  | { kind: 'sent' }
  | { kind: 'computed' }
  /** The prompt is computed, and its request is to be answered. */
  | { kind: 'answerWanted' }
  /** Another transfer needs its memory. */
  | { kind: 'evicted' }
  /** This instance is closing. */
  | { kind: 'shutDown' }
  /** The answer to `closeSend`. */
  | { kind: 'sendClosed' }
  /** Time has passed. */
  | { kind: 'tick' }
>;

export type ProducerEffect = Readonly<
  /** Make the data link to D, or find the one there is. */
  | { kind: 'connect'; ticket: bigint }
  | { kind: 'send'; link: number; grant: Grant }
  | { kind: 'closeSend' }
  | { kind: 'tellCancel' }
  /** The answer to `answerWanted`. */
  | { kind: 'answer' }
  /** The key is free for another transfer. */
  | { kind: 'end'; outcome: SendOutcome }
  /** The blocks can be reused. */
  | { kind: 'release' }
>;

/** A transfer that waits for a pull (GET), or for the answer to its reservation. */
export function newSend(about: SendDescription, sendType: SendType, now: number): ProducerTransfer {
  const phase = sendType === 'GET' ? 'holding' : 'reserving';
  const blank = { grant: null, link: null, hasRelinked: false, isComputed: false, answerWantedAt: null };
  return { ...about, ...blank, phase, mayAnswer: sendType !== 'PUT', lastActivity: now };
}

/** Whether the blocks are for D still. */
export function isOpen({ phase }: ProducerTransfer): boolean {
  return phase !== 'closing' && phase !== 'closed';
}
