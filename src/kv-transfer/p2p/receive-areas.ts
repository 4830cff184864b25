// Which transfer of D may write where: opens areas of the receive memory under fresh tickets and takes them back when
// nothing is written into them any more. decode-side.ts decides who gets one.

import { randomBytes } from 'node:crypto';
import type { BlockMover } from './block-mover.ts';
import type { ReceiveTransfer } from './receive-transfer.ts';
import type { SlotPool, Slots } from './slot-pool.ts';

export class ReceiveAreas {
  readonly #mover: BlockMover;
  readonly #memory: SlotPool;
  readonly #byTicket = new Map<bigint, ReceiveTransfer>();
  readonly #onRoom: () => void;

  /** @param onRoom called when an area has become free. */
  constructor(mover: BlockMover, memory: SlotPool, onRoom: () => void) {
    this.#mover = mover;
    this.#memory = memory;
    this.#onRoom = onRoom;
  }

  /** The transfer whose ticket this is now. */
  of(ticket: bigint): ReceiveTransfer | null {
    return this.#byTicket.get(ticket) ?? null;
  }

  /** Opens an area for blocks `firstBlock` .. `numBlocks` of a transfer; false where there is no room. */
  open(transfer: ReceiveTransfer, firstBlock: number, numBlocks: number): boolean {
    const area = this.#memory.take(numBlocks - firstBlock);
    if (area !== null) this.#openAt(transfer, area, firstBlock);
    return area !== null;
  }

  /** Voids the ticket and opens the same area under a new one; false where the transfer is over meanwhile. */
  async reopen(transfer: ReceiveTransfer): Promise<boolean> {
    const { open } = transfer;
    if (open === null) return false;
    this.#forget(transfer, open.ticket);
    await this.#mover.closeReceive(open.ticket);
    if (transfer.state.is('pulling') && transfer.open === null) {
      this.#openAt(transfer, open.area, open.firstBlock);
      return true;
    }
    this.#giveBack(open.area);
    return false;
  }

  async release(transfer: ReceiveTransfer): Promise<void> {
    const { open } = transfer;
    if (open === null) return;
    this.#forget(transfer, open.ticket);
    await this.#mover.closeReceive(open.ticket);
    this.#giveBack(open.area);
  }

  /** Whether pieces have come since it was last asked. */
  hasProgressed(transfer: ReceiveTransfer): boolean {
    const pieces = transfer.open === null ? 0 : this.#mover.progress(transfer.open.ticket);
    const hasProgressed = pieces !== transfer.pieces;
    transfer.pieces = pieces;
    return hasProgressed;
  }

  #openAt(transfer: ReceiveTransfer, area: Slots, firstBlock: number): void {
    const ticket = randomBytes(8).readBigUInt64LE();
    transfer.open = { area, ticket, firstBlock };
    transfer.pieces = 0;
    transfer.lastActivity = Date.now();
    this.#byTicket.set(ticket, transfer);
    this.#mover.openReceive(ticket, firstBlock, area.offsets);
  }

  #forget(transfer: ReceiveTransfer, ticket: bigint): void {
    transfer.open = null;
    this.#byTicket.delete(ticket);
  }

  #giveBack(area: Slots): void {
    this.#memory.give(area);
    this.#onRoom();
  }
}
