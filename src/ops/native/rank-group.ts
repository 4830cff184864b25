// Opens groups in the addon, which all threads of the process share.

import type { Native } from '../../native/native.ts';
import type { RankGroup } from '../ranks.ts';

/** @param deadlineMs how long a rank waits for the others in one op */
export function openRankGroup(native: Native, size: number, deadlineMs: number): RankGroup {
  const group = native.createRankGroup(size, deadlineMs);
  return {
    seats: Array.from({ length: size }, (_, rank) => ({ rank, size, group })),
    break: (why) => native.breakRankGroup(group, why),
  };
}
