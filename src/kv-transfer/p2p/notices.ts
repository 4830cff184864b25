// What another instance has to hear so that it lets go of blocks. A connection may end with the message on its way, or be cut for
// a while without either end knowing: whoever has not said that it has heard is told again.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Deadlines } from './deadlines.ts';
import type { Notice } from './messages.ts';
import { type Peer, PeerError, type Peers } from './peers.ts';

/** Notices that nobody has heard yet; beyond, the other instance lets go at its own deadlines. */
const MAX_UNHEARD = 4096;

export class Notices {
  readonly #peers: Peers;
  readonly #deadlines: Deadlines;
  #numUnheard = 0;
  #isClosed = false;

  constructor(peers: Peers, deadlines: Deadlines) {
    this.#peers = peers;
    this.#deadlines = deadlines;
  }

  /** Returns at once. The instance may be dead, or one that this one has given up. */
  tell(address: string, notice: Notice): void {
    if (this.#numUnheard >= MAX_UNHEARD) return;
    this.#numUnheard += 1;
    void this.#tellUntilHeard(address, notice).finally(() => {
      this.#numUnheard -= 1;
    });
  }

  /** Those that have not been heard are told no more. */
  close(): void {
    this.#isClosed = true;
  }

  async #tellUntilHeard(address: string, notice: Notice): Promise<void> {
    const { notice: deadline, noticeRetry } = this.#deadlines;
    const end = performance.now() + deadline;
    while (!(await this.#isHeard(address, notice)) && performance.now() < end && !this.#isClosed) {
      await sleep(noticeRetry, undefined, { ref: false });
    }
  }

  /** True as well where the two do not let each other in: nothing can be open between them. */
  async #isHeard(address: string, notice: Notice): Promise<boolean> {
    let peer: Peer | null = null;
    try {
      peer = this.#peers.get(address);
      // A dead connection is found out by pings, and then another one is made.
      peer.pins.add(notice);
      await peer.request(notice);
      return true;
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      return error.code === 'refused';
    } finally {
      peer?.pins.delete(notice);
    }
  }
}
