// One transfer at D, from the first that is heard of it - P's reservation or the request itself - until its area is
// free. decode-side.ts and pulls.ts move it.

import type { RecomputeReason } from '../connector.ts';
import type { Peer } from './peer.ts';
import type { Slots } from './slot-pool.ts';
import { State, type Transitions } from './state.ts';

/**
 * waiting: there is no room. pulling: P has been asked, or is about to be. arriving: blocks come, or will when P has
 * computed them. received: all are here. over: nothing more comes.
 */
type ReceiveState = 'waiting' | 'pulling' | 'arriving' | 'received' | 'over';

const TRANSITIONS: Transitions<ReceiveState> = {
  waiting: ['pulling', 'over'],
  pulling: ['pulling', 'waiting', 'arriving', 'received', 'over'],
  arriving: ['pulling', 'received', 'over'],
  received: ['over'],
  over: [],
};

/** An area that native threads may write into. */
export interface OpenArea {
  readonly area: Slots;
  readonly ticket: bigint;
  /** The block of the transfer that comes to the first offset. */
  readonly firstBlock: number;
}

/** One sequence that wants the blocks. It is asked for at most once, and answered as often. */
export interface Sample {
  readonly transferId: number;
  /** idle: the engine has not asked. wanted: it waits. loading: blocks are being copied. */
  state: 'idle' | 'wanted' | 'loading' | 'done';
  firstBlock: number;
  blocks: readonly number[];
}

export class ReceiveTransfer {
  readonly key: string;
  readonly hash: string;
  /** Control address of P. */
  readonly address: string;
  readonly state: State<ReceiveState>;
  readonly isPushed: boolean;
  numTokens: number;
  /** P, while something is expected of it. */
  peer: Peer | null = null;
  open: OpenArea | null = null;
  /** Empty until the request is here. */
  samples: readonly Sample[] = [];
  isClaimed = false;
  failure: RecomputeReason | null = null;
  /** P has said that it is still computing. */
  isComputing = false;
  /** How often it was begun anew, and why the last time. */
  retries = 0;
  retryReason: RecomputeReason | null = null;
  /** When the request came, when the last piece came, and when room began to be missing. */
  claimedAt = 0;
  lastActivity = Date.now();
  pieces = 0;
  waitingSince = 0;

  constructor(
    about: { key: string; hash: string; address: string; numTokens: number },
    first: 'pulling' | 'arriving',
  ) {
    this.key = about.key;
    this.hash = about.hash;
    this.address = about.address;
    this.numTokens = about.numTokens;
    this.isPushed = first === 'arriving';
    this.state = new State(TRANSITIONS, first);
  }

  /** Something is expected of P: the connection to it stays. */
  attach(peer: Peer): void {
    if (this.peer === peer) return;
    this.detach();
    this.peer = peer;
    peer.numOpen += 1;
  }

  detach(): void {
    if (this.peer !== null) this.peer.numOpen -= 1;
    this.peer = null;
  }

  /** Whether blocks may still come. */
  get isExpected(): boolean {
    return this.state.is('waiting', 'pulling', 'arriving');
  }
}

/** A ticket as messages carry it: 16 hexadecimal digits. */
export function ticketText({ ticket }: OpenArea): string {
  return ticket.toString(16).padStart(16, '0');
}
