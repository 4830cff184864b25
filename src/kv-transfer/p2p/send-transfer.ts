// One transfer at P, from the arrival of its request until nothing reads its blocks: plain data; prefill-side.ts moves it.

import type { Peer } from './peer.ts';
import { State, type Transitions } from './state.ts';

/**
 * holding: the blocks wait for a pull. reserving: D is being asked for room. reserved: D has room, the prompt is not
 * computed yet (PUT). sending: blocks leave as they are computed, or have left. closing: native threads may still read
 * the blocks. closed: they can be reused.
 */
type SendState = 'holding' | 'reserving' | 'reserved' | 'sending' | 'closing' | 'closed';

const TRANSITIONS: Transitions<SendState> = {
  holding: ['sending', 'closing'],
  reserving: ['reserved', 'holding', 'sending', 'closing'],
  reserved: ['sending', 'closing'],
  sending: ['sending', 'closing'],
  closing: ['closed'],
  closed: [],
};

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

export class SendTransfer {
  readonly about: SendDescription;
  readonly state: State<SendState>;
  /** D, from the first message about this transfer to its end. */
  peer: Peer | null = null;
  grant: Grant | null = null;
  /** Of the data link that the blocks leave by; null until there is one. */
  link: number | null = null;
  /** Whether the link was made anew for this grant already. */
  hasRelinked = false;
  /** All of the prompt is computed. */
  isComputed = false;
  /** When something last happened to it. */
  lastActivity = Date.now();
  /** Resolves when D has the blocks, or will not have them now. */
  readonly settled: Promise<void>;
  readonly settle: () => void;

  constructor(about: SendDescription, first: 'holding' | 'reserving') {
    this.about = about;
    this.state = new State(TRANSITIONS, first);
    let settle = (): void => {};
    this.settled = new Promise((resolve) => {
      settle = resolve;
    });
    this.settle = settle;
  }
}
