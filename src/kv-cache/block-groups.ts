// Which blocks a sequence needs. Its tokens fill blocks of `blockSize`, and each group of layers has a block of its own for
// them. Layers that see furthest keep the blocks of the whole sequence; what the others have behind their windows is given back.

export interface BlockGroups {
  /** Tokens of a block. */
  readonly blockSize: number;
  /** [groups] So many tokens, itself included, does a token see; null is all. Those that see furthest come first. */
  readonly windows: readonly (number | null)[];
  /** Blocks of a transfer behind those of its tokens, which hold what layers keep as states; left out where none keeps any. */
  readonly stateBlocks?: number;
}

/** Whether a group sees less than the first one: its blocks behind the window need not be there. */
export function isNear({ windows }: BlockGroups, group: number): boolean {
  return windows[group] !== windows[0];
}

/** Index of the first block that the token at `position` sees, or one after it. */
export function firstSeen({ blockSize, windows }: BlockGroups, group: number, position: number): number {
  const window = windows[group] ?? null;
  return window === null ? 0 : Math.max(0, Math.floor((position - window + 1) / blockSize));
}

/** Index of the first block that a group needs of a sequence whose first `numBlocks` blocks are computed. */
export function firstNeeded(groups: BlockGroups, group: number, numBlocks: number): number {
  return isNear(groups, group) ? firstSeen(groups, group, numBlocks * groups.blockSize) : 0;
}

/** Most blocks that one sequence of `numTokens` tokens has at a time, where a step computes up to `maxStepTokens` of them. */
export function mostBlocks(groups: BlockGroups, numTokens: number, maxStepTokens: number): number {
  const { blockSize, windows, stateBlocks = 0 } = groups;
  const numBlocks = Math.ceil(numTokens / blockSize);
  return windows.reduce<number>((sum, window, group) => {
    if (window === null || !isNear(groups, group)) return sum + numBlocks;
    // The window and the step may each begin inside a block.
    const numSeen = Math.ceil((window - 1 + maxStepTokens) / blockSize) + 1;
    return sum + Math.min(numBlocks, numSeen);
  }, stateBlocks);
}

/** Tokens of the longest sequence that `numBlocks` blocks are enough for. */
export function longestSequence(groups: BlockGroups, numBlocks: number, maxStepTokens: number): number {
  const numFar = groups.windows.filter((_, group) => !isNear(groups, group)).length;
  const { blockSize, stateBlocks = 0 } = groups;
  let [fits, most] = [0, Math.max(0, Math.floor((numBlocks - stateBlocks) / numFar))];
  while (fits < most) {
    const middle = Math.ceil((fits + most) / 2);
    if (mostBlocks(groups, middle * blockSize, maxStepTokens) <= numBlocks) fits = middle;
    else most = middle - 1;
  }
  return fits * blockSize;
}

/**
 * Blocks of a transfer of the first `numTokens` tokens of a prompt that come before those of block index `end`. They are in the
 * order of their tokens, those of one index in the order of their groups: of each group what the last tokens see. All lengths
 * that end in the same block begin alike.
 */
export function numTransferred(groups: BlockGroups, numTokens: number, end: number): number {
  const numBlocks = Math.floor(numTokens / groups.blockSize);
  return groups.windows.reduce<number>(
    (sum, _, group) => sum + Math.max(0, end - firstNeeded(groups, group, numBlocks)),
    0,
  );
}

/** Blocks of such a transfer that hold its tokens. */
export function numTokenBlocks(groups: BlockGroups, numTokens: number): number {
  return numTransferred(groups, numTokens, Math.ceil(numTokens / groups.blockSize));
}

/** All blocks of such a transfer. */
export function transferSize(groups: BlockGroups, numTokens: number): number {
  return numTokenBlocks(groups, numTokens) + (groups.stateBlocks ?? 0);
}

/** [blocks] The group of each of such a transfer. A model with states has one. */
export function transferGroups(groups: BlockGroups, numTokens: number): Uint8Array {
  const end = Math.ceil(numTokens / groups.blockSize);
  const tables = groups.windows.map((_, group) => new Array<number>(end).fill(group));
  const ofStates = new Array<number>(groups.stateBlocks ?? 0).fill(0);
  return Uint8Array.from([...transferBlocks(groups, numTokens, tables, 0, end), ...ofStates]);
}

/** Of `blocks`, which are for a transfer of as many tokens or more, those for one of `numTokens` tokens. */
export function blocksForFewer(
  groups: BlockGroups,
  numTokens: number,
  blocks: readonly number[],
): readonly number[] {
  const endOfTokens = blocks.length - (groups.stateBlocks ?? 0);
  return [
    ...blocks.slice(0, Math.min(endOfTokens, numTokenBlocks(groups, numTokens))),
    ...blocks.slice(endOfTokens),
  ];
}

/** Tokens that the first `count` blocks of such a transfer hold, in all groups. */
export function tokensInFirst(groups: BlockGroups, numTokens: number, count: number): number {
  let end = 0;
  while (numTransferred(groups, numTokens, end + 1) <= count) end += 1;
  return Math.min(numTokens, end * groups.blockSize);
}

/** The blocks of such a transfer from block index `begin` to `end`. @param tables [groups] */
export function transferBlocks(
  groups: BlockGroups,
  numTokens: number,
  tables: readonly (readonly number[])[],
  begin: number,
  end: number,
): number[] {
  const numBlocks = Math.floor(numTokens / groups.blockSize);
  const blocks: number[] = [];
  for (let index = begin; index < end; index += 1) {
    for (const [group, table] of tables.entries()) {
      if (index >= firstNeeded(groups, group, numBlocks)) blocks.push(table[index]!);
    }
  }
  return blocks;
}
