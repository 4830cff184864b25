// Asks P for blocks that did not come by themselves: opens an area for them, waits for room where there is none, and makes
// out of P's answer what is to be expected. decode-side.ts begins and ends pulls.

import type { RecomputeReason } from '../connector.ts';
import type { Deadlines } from './deadlines.ts';
import type { Answer } from './messages.ts';
import { PeerError } from './peer.ts';
import type { Peers } from './peers.ts';
import type { ReceiveAreas } from './receive-areas.ts';
import { type OpenArea, type ReceiveTransfer, ticketText } from './receive-transfer.ts';

export interface PullsOptions {
  readonly peers: Peers;
  readonly areas: ReceiveAreas;
  readonly deadlines: Deadlines;
  readonly blockSize: number;
  /** Nothing comes of it. `tells`: P has to hear of it. */
  readonly onFailed: (transfer: ReceiveTransfer, reason: RecomputeReason, tells: boolean) => void;
  /** The sequences have all blocks already. */
  readonly onNeedless: (transfer: ReceiveTransfer) => void;
}

/** Transfers that wait for room; those beyond are computed here. */
const MAX_WAITING = 1024;

export class Pulls {
  readonly #options: PullsOptions;
  readonly #waiting = new Set<ReceiveTransfer>();

  constructor(options: PullsOptions) {
    this.#options = options;
  }

  get numWaiting(): number {
    return this.#waiting.size;
  }

  /** Asks P for the blocks, into a new area where it has none; waits where there is no room. */
  begin(transfer: ReceiveTransfer): void {
    if (transfer.open === null) {
      const [firstBlock, numBlocks] = [firstMissing(transfer), this.#blocksOf(transfer.numTokens)];
      if (firstBlock >= numBlocks) {
        this.#options.onNeedless(transfer);
        return;
      }
      if (!this.#options.areas.open(transfer, firstBlock, numBlocks)) {
        this.#wait(transfer);
        return;
      }
    }
    this.#waiting.delete(transfer);
    transfer.state.go('pulling');
    void this.#ask(transfer);
  }

  /** The same under a new ticket, so that what still comes under the old one is thrown away. */
  async beginAgain(transfer: ReceiveTransfer): Promise<void> {
    transfer.state.go('pulling');
    if (await this.#options.areas.reopen(transfer)) void this.#ask(transfer);
  }

  /** Who has waited longest comes first. */
  roomIsFree(): void {
    for (const transfer of [...this.#waiting]) {
      this.begin(transfer);
      if (transfer.state.is('waiting')) break;
    }
  }

  end(transfer: ReceiveTransfer): void {
    this.#waiting.delete(transfer);
  }

  #wait(transfer: ReceiveTransfer): void {
    if (transfer.state.is('waiting')) return;
    if (this.#waiting.size >= MAX_WAITING) {
      this.#options.onFailed(transfer, 'no_room', true);
      return;
    }
    transfer.state.go('waiting');
    transfer.waitingSince = Date.now();
    this.#waiting.add(transfer);
  }

  async #ask(transfer: ReceiveTransfer): Promise<void> {
    const { open } = transfer;
    if (open === null) return;
    let answer: Answer;
    try {
      const peer = this.#options.peers.get(transfer.address);
      transfer.attach(peer);
      answer = await peer.request({
        type: 'pull',
        key: transfer.key,
        ticket: ticketText(open),
        first_block: open.firstBlock,
        num_blocks: this.#blocksOf(transfer.numTokens),
        hash: transfer.hash,
      });
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      if (error.code === 'refused') this.#options.peers.complain(transfer.address, error.message);
      const reason = error.code === 'gone' ? 'peer_gone' : 'mismatch';
      if (isAsking(transfer, open)) this.#options.onFailed(transfer, reason, false);
      return;
    }
    // The blocks may be here before the answer is, or all may be over.
    if (isAsking(transfer, open)) this.#answered(transfer, open, answer);
  }

  #answered(transfer: ReceiveTransfer, open: OpenArea, answer: Answer): void {
    if (answer.type !== 'pulled' || answer.state === 'mismatch') {
      this.#options.onFailed(transfer, 'mismatch', true);
    } else if (answer.state === 'gone') {
      this.#options.onFailed(transfer, transfer.retryReason ?? 'unknown', false);
    } else if (answer.state === 'unknown') {
      this.#unknown(transfer, open);
    } else if (answer.state === 'resized') {
      this.#resized(transfer, answer.num_tokens);
    } else {
      transfer.isComputing = answer.state === 'computing';
      transfer.state.go('arriving');
      transfer.lastActivity = Date.now();
    }
  }

  /** Another proxy may call D before P: P is asked for a while. */
  #unknown(transfer: ReceiveTransfer, open: OpenArea): void {
    const { unknown, unknownRetry } = this.#options.deadlines;
    if (transfer.retries > 0 || Date.now() - transfer.claimedAt >= unknown) {
      this.#options.onFailed(transfer, transfer.retryReason ?? 'unknown', false);
      return;
    }
    setTimeout(() => {
      if (isAsking(transfer, open)) void this.#ask(transfer);
    }, unknownRetry);
  }

  /** P has fewer blocks than this prompt has: what there is, is of use. */
  #resized(transfer: ReceiveTransfer, numTokens: number): void {
    if (numTokens < 1 || numTokens >= transfer.numTokens) {
      this.#options.onFailed(transfer, 'mismatch', true);
      return;
    }
    transfer.numTokens = numTokens;
    void this.#options.areas.release(transfer);
    this.begin(transfer);
  }

  #blocksOf(numTokens: number): number {
    return Math.ceil(numTokens / this.#options.blockSize);
  }
}

/** Whether the answer to what was asked for this area still matters. */
function isAsking(transfer: ReceiveTransfer, open: OpenArea): boolean {
  return transfer.state.is('pulling') && transfer.open === open;
}

/** The first block that some sequence lacks; the very first where not all have said so yet. */
function firstMissing({ samples }: ReceiveTransfer): number {
  const isKnown = samples.every(({ state }) => state === 'wanted' || state === 'done');
  const wanted = samples.filter(({ state }) => state === 'wanted');
  return isKnown && wanted.length > 0 ? Math.min(...wanted.map(({ firstBlock }) => firstBlock)) : 0;
}
