// Counts at D which way each transfer went; decode-side.ts keeps it.

import type { KvTransferStats, RecomputeReason } from '../connector.ts';
import type { SlotPool } from './slot-pool.ts';

export class ReceiveStats {
  pushed = 0;
  pulled = 0;
  viaBuffer = 0;
  viaPool = 0;
  loadedTokens = 0;
  corruptPieces = 0;
  readonly recomputed: Record<RecomputeReason, number> = {
    peer_gone: 0,
    unknown: 0,
    no_room: 0,
    late: 0,
    corrupt: 0,
    mismatch: 0,
  };

  /** All blocks of one transfer have come. */
  received(isPushed: boolean, location: 'buffer' | 'pool'): void {
    if (isPushed) this.pushed += 1;
    else this.pulled += 1;
    if (location === 'buffer') this.viaBuffer += 1;
    else this.viaPool += 1;
  }

  snapshot(memory: SlotPool, bytes: number): KvTransferStats['receive'] {
    const { pushed, pulled, viaBuffer, viaPool, loadedTokens, corruptPieces } = this;
    return {
      ...{ pushed, pulled, viaBuffer, viaPool, loadedTokens, corruptPieces, bytes },
      recomputed: { ...this.recomputed },
      areas: memory.numTaken,
      bufferUsedBytes: memory.bufferUsedBytes,
      poolUsedBytes: memory.poolUsedBytes,
    };
  }
}
