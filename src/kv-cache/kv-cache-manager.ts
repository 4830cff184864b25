// Which block belongs to which sequence: finds blocks that already hold a sequence's prefix, grows block tables as
// tokens arrive, and frees them when a sequence ends.

import { type BlockGroups, firstNeeded, firstSeen, isNear } from './block-groups.ts';
import { BlockPool } from './block-pool.ts';
import { type BlockHash, blockHash, type ExtraKey, ROOT_HASH } from './prefix-hash.ts';
import { type StatePlan, type StateSnapshot, StateSnapshots } from './state-snapshots.ts';

/** The block table of one sequence and one group: block `i` holds tokens [i * blockSize, (i + 1) * blockSize). */
export interface BlockTable {
  readonly blocks: number[];
  /**
   * The first ones, which no token to come can see: they were given back or never taken, and their entries in `blocks`
   * mean nothing.
   */
  numUnseenBlocks: number;
}

/** What the manager must know of a sequence. */
export interface CachedSequence {
  readonly tokens: readonly number[];
  /** One a group; none while the sequence has no blocks. Only the manager changes them. */
  readonly tables: BlockTable[];
  /** Names of the full blocks, as far as they were needed; only this manager writes them. */
  readonly blockHashes: BlockHash[];
  /** What the keys and values depend on beside the tokens, in the order of positions. */
  readonly extraKeys: readonly ExtraKey[];
  /** False for a sequence whose every token must be computed; it still leaves its blocks to others. */
  readonly mayReadCache: boolean;
  /** Tokens before the first one whose logits are wanted: only these may come from the cache. */
  readonly numCacheableTokens: number;
  /** Where layers keep states; only the manager changes it. */
  readonly states: SequenceStates;
  /**
   * Its states after so many tokens are for another instance: no more tokens than these may come from the cache. Infinity is that they
   * come from there, null that they do neither.
   */
  readonly statesPassAt: number | null;
}

/** What becomes of the states that layers keep of a sequence. */
export interface SequenceStates {
  /** What it goes on from when it is computed next, where that is not where it was. */
  snapshot: StateSnapshot | null;
  /** So many of its tokens are the beginning of what others may ask for: its states after them are kept. */
  ends: readonly number[];
  /** In which they go to another instance, or come from there. */
  blocks: readonly number[];
  /** Whether they have come, so that it goes on from them when it is computed next. */
  haveCome: boolean;
}

export interface KvCacheConfig extends BlockGroups {
  readonly numBlocks: number;
  readonly enablePrefixCaching: boolean;
  /** Most tokens that a step computes. */
  readonly maxNumBatchedTokens: number;
  /** States that are kept for prompts that begin alike; null or left out where no layer keeps any. */
  readonly numSnapshots?: number | null;
}

/** What a sequence can begin with: blocks of each group, the first `numCached` of which it takes. */
interface Prefix {
  readonly numCached: number;
  readonly found: readonly number[][];
  /** Blocks that are there, though no states behind them. */
  readonly numKnown: number;
}

/** The blocks that a sequence gets in one group: `| unseen | cached | new |`. */
interface GroupPlan {
  readonly numUnseen: number;
  readonly cached: readonly number[];
  readonly numNew: number;
}

/** In the place of a block that is not there. */
const NO_BLOCK = 0;

export class KvCacheManager {
  readonly #config: KvCacheConfig;
  readonly #blockSize: number;
  readonly #pool: BlockPool;
  readonly #snapshots: StateSnapshots | null;

  constructor(config: KvCacheConfig) {
    this.#config = config;
    this.#blockSize = config.blockSize;
    this.#pool = new BlockPool(config.numBlocks);
    const { numSnapshots = null } = config;
    this.#snapshots = numSnapshots === null ? null : new StateSnapshots(numSnapshots);
  }

  get numBlocks(): number {
    return this.#pool.numBlocks;
  }

  get numFreeBlocks(): number {
    return this.#pool.numFree;
  }

  /** Before a step is planned. */
  beginStep(): void {
    this.#snapshots?.beginStep();
  }

  /**
   * Blocks for a sequence that has none: those that hold its prefix, and new ones for up to `maxNewTokens` more. At least the
   * last token is never taken from the cache: its logits are wanted.
   * @param numToLoad tokens at its front that come from elsewhere into blocks of its own
   * @returns the number of cached tokens, or null (and no side effect) where the pool has too few blocks.
   */
  admit(sequence: CachedSequence, maxNewTokens: number, numToLoad = 0): number | null {
    const { prefix, groups } = this.#plan(sequence, maxNewTokens, numToLoad);
    const cached = groups.flatMap((group) => group.cached);
    const numFreeCached = cached.filter((block) => this.#pool.isFree(block)).length;
    const numForStates = this.#numForStates(sequence);
    const numNew = sumOf(groups, (group) => group.numNew) + numForStates;
    if (numNew > this.#pool.numFree - numFreeCached) return null;
    for (const block of cached) this.#pool.share(block);
    const fresh = this.#pool.allocate(numNew)!;
    sequence.states.blocks = fresh.splice(0, numForStates);
    for (const group of groups) {
      const unseen = new Array<number>(group.numUnseen).fill(NO_BLOCK);
      const blocks = [...unseen, ...group.cached, ...fresh.splice(0, group.numNew)];
      sequence.tables.push({ blocks, numUnseenBlocks: group.numUnseen });
    }
    this.#beginStates(sequence, prefix);
    return prefix.numCached * this.#blockSize;
  }

  /** From which states a sequence goes on, and which of its own are kept: at its end, and where others have begun like it. */
  #beginStates(sequence: CachedSequence, { numCached, numKnown }: Prefix): void {
    const { states } = sequence;
    if (this.#snapshots === null || !this.#config.enablePrefixCaching) return;
    states.snapshot = numCached === 0 ? null : this.#snapshots.hold(this.#hashOf(sequence, numCached - 1));
    const last = Math.floor(this.#numCacheable(sequence) / this.#blockSize);
    const ends = [...new Set([numKnown, last])].filter((end) => end > numCached);
    states.ends = ends.map((end) => end * this.#blockSize);
  }

  /** Whether the step that is being planned keeps states from which the sequence can go on: in the next one it has less to compute. */
  awaitsStates(sequence: CachedSequence): boolean {
    const snapshots = this.#snapshots;
    if (snapshots === null) return false;
    const { numCached, numKnown } = this.#findPrefix(sequence);
    for (let index = numCached; index < numKnown; index += 1)
      if (snapshots.isWritten(this.#hashOf(sequence, index))) return true;
    return false;
  }

  /**
   * What becomes of the states of a sequence in a step that computes its tokens from `firstPosition` up to `end`.
   * @param areSent whether another instance gets those that the step goes on from
   */
  planStates(
    sequence: CachedSequence,
    firstPosition: number,
    end: number,
    areSent: boolean,
  ): StatePlan | null {
    const snapshots = this.#snapshots;
    if (snapshots === null) return null;
    const { states } = sequence;
    const { snapshot, blocks } = states;
    if (snapshot !== null) snapshots.read(snapshot);
    states.snapshot = null;
    const way = areSent ? 'out' : states.haveCome ? 'in' : null;
    states.haveCome = false;
    const saves = states.ends.flatMap((length) => {
      if (length <= firstPosition || length > end) return [];
      const written = snapshots.write(this.#hashOf(sequence, length / this.#blockSize - 1));
      return written === null ? [] : [{ numTokens: length - firstPosition, snapshot: written.index }];
    });
    return { snapshot: snapshot?.index ?? null, saves, move: way && { way, blocks } };
  }

  /** A sequence goes on from the states that have come into its blocks for them; where none have, it has no use for these. */
  endStateLoad(sequence: CachedSequence, haveCome: boolean): void {
    const { states } = sequence;
    if (!haveCome) this.freeStateBlocks(sequence);
    else if (states.blocks.length > 0) {
      this.#releaseSnapshot(states);
      states.haveCome = true;
    }
  }

  /** Gives back the blocks that a sequence has for its states: they have been moved, or will not be. */
  freeStateBlocks({ states }: CachedSequence): void {
    this.#pool.free(states.blocks);
    states.blocks = [];
    states.haveCome = false;
  }

  #releaseSnapshot(states: SequenceStates): void {
    if (states.snapshot !== null) this.#snapshots!.release(states.snapshot);
    states.snapshot = null;
  }

  #numForStates({ statesPassAt }: CachedSequence): number {
    return statesPassAt === null ? 0 : (this.#config.stateBlocks ?? 0);
  }

  /** Whether `admit` would find enough blocks after the sequences `leaving` have been freed. */
  canAdmit(
    sequence: CachedSequence,
    maxNewTokens: number,
    leaving: readonly CachedSequence[],
    numToLoad = 0,
  ): boolean {
    const { groups } = this.#plan(sequence, maxNewTokens, numToLoad);
    const numUses = new Map<number, number>();
    for (const block of leaving.flatMap(ownBlocks)) {
      numUses.set(block, (numUses.get(block) ?? 0) + 1);
    }
    const isFreeThen = (block: number): boolean => this.#pool.numUsers(block) === (numUses.get(block) ?? 0);
    const numFreed = [...numUses.keys()].filter(isFreeThen).length;
    const numFreeCached = groups.flatMap((group) => group.cached).filter(isFreeThen).length;
    const numNew = sumOf(groups, (group) => group.numNew) + this.#numForStates(sequence);
    return numNew <= this.#pool.numFree + numFreed - numFreeCached;
  }

  /**
   * Makes room for the first `numTokens` tokens of a sequence, in each group: `| blocks it owns | new blocks |`.
   * @returns false, with nothing changed, where the pool has too few blocks.
   */
  grow(sequence: CachedSequence, numTokens: number): boolean {
    const numBlocks = Math.ceil(numTokens / this.#blockSize);
    const numWanted = ({ blocks }: BlockTable): number => Math.max(0, numBlocks - blocks.length);
    const wanted = sumOf(sequence.tables, numWanted);
    if (wanted === 0) return true;
    const fresh = this.#pool.allocate(wanted);
    if (fresh === null) return false;
    for (const table of sequence.tables) table.blocks.push(...fresh.splice(0, numWanted(table)));
    return true;
  }

  /** Leading tokens that have a block in every group of layers. */
  numTokensWithBlocks({ tables }: CachedSequence): number {
    return this.#blockSize * Math.min(...tables.map(({ blocks }) => blocks.length));
  }

  /** Lets others find the full blocks among the first `numTokens` tokens: from now on they will be computed. */
  publish(sequence: CachedSequence, numTokens: number, numPublished: number): void {
    if (!this.#config.enablePrefixCaching) return;
    const end = Math.floor(numTokens / this.#blockSize);
    for (let index = Math.floor(numPublished / this.#blockSize); index < end; index += 1) {
      const hash = this.#hashOf(sequence, index);
      for (const [group, { blocks, numUnseenBlocks }] of sequence.tables.entries()) {
        if (index >= numUnseenBlocks) this.#pool.remember(blocks[index]!, nameIn(group, hash));
      }
    }
  }

  /** Gives the blocks back whose tokens are too old to be seen from `position` or any later one. */
  freeUnseen({ tables }: CachedSequence, position: number): void {
    for (const [group, table] of tables.entries()) {
      const end = firstSeen(this.#config, group, position);
      if (end <= table.numUnseenBlocks) continue;
      this.#pool.free(table.blocks.slice(table.numUnseenBlocks, end));
      table.numUnseenBlocks = end;
    }
  }

  /** Whether a sequence has all blocks that the token at `position` sees. */
  hasAllSeen({ tables }: CachedSequence, position: number): boolean {
    return tables.every(
      ({ numUnseenBlocks }, group) => numUnseenBlocks <= firstSeen(this.#config, group, position),
    );
  }

  /** Gives all blocks of a sequence back; those that were published can be found until they are reused. */
  free(sequence: CachedSequence): void {
    this.#pool.free(ownBlocks(sequence));
    sequence.tables.length = 0;
    Object.assign(sequence.states, { blocks: [], haveCome: false });
    this.#releaseSnapshot(sequence.states);
  }

  /** One user more of each block: a transfer that still has to read it. */
  hold(blocks: readonly number[]): void {
    for (const block of blocks) this.#pool.share(block);
  }

  release(blocks: readonly number[]): void {
    this.#pool.free(blocks);
  }

  reset(): void {
    this.#pool.forgetAll();
    this.#snapshots?.reset();
  }

  #plan(
    sequence: CachedSequence,
    maxNewTokens: number,
    numToLoad: number,
  ): { readonly prefix: Prefix; readonly groups: readonly GroupPlan[] } {
    const size = this.#blockSize;
    const prefix = this.#findPrefix(sequence);
    const { numCached, found } = prefix;
    // Blocks that need no computing here.
    const numKept = Math.max(numCached, Math.floor(numToLoad / size));
    const groups = found.map((blocks, group) => {
      const numUnseen = firstNeeded(this.#config, group, numKept);
      // What a group will have given back before the sequence is there need not be had at once.
      const most = isNear(this.#config, group) ? this.#config.maxNumBatchedTokens : Number.POSITIVE_INFINITY;
      const numTokens = Math.min(sequence.tokens.length, numKept * size + Math.min(maxNewTokens, most));
      const cached = blocks.slice(numUnseen, numCached);
      return { numUnseen, cached, numNew: Math.ceil(numTokens / size) - Math.max(numUnseen, numCached) };
    });
    return { prefix, groups };
  }

  /** The longest prefix of which each group has the blocks that it needs, and layers their states. */
  #findPrefix(sequence: CachedSequence): Prefix {
    const config = this.#config;
    const found = config.windows.map((): number[] => []);
    // Of each group, from this index on all are there.
    const begins = config.windows.map(() => 0);
    const mayRead = config.enablePrefixCaching && sequence.mayReadCache;
    const end = mayRead ? Math.floor(this.#numCacheable(sequence) / this.#blockSize) : 0;
    let [numCached, numKnown] = [0, 0];
    for (let index = 0; index < end; index += 1) {
      const hash = this.#hashOf(sequence, index);
      for (const [group, blocks] of found.entries()) {
        const block = this.#pool.find(nameIn(group, hash));
        if (block === null) begins[group] = index + 1;
        blocks.push(block ?? NO_BLOCK);
      }
      // Nothing longer is there, where one is missing that is needed for good.
      if (begins.some((begin, group) => begin > 0 && !isNear(config, group))) break;
      const isWhole = begins.every((begin, group) => begin <= firstNeeded(config, group, index + 1));
      if (!isWhole) continue;
      numKnown = index + 1;
      if (this.#snapshots?.has(hash) ?? true) numCached = numKnown;
    }
    return { numCached, numKnown, found };
  }

  #numCacheable(sequence: CachedSequence): number {
    const { numCacheableTokens, statesPassAt } = sequence;
    const most = this.#numForStates(sequence) > 0 ? statesPassAt : null;
    return Math.min(numCacheableTokens, most ?? Number.POSITIVE_INFINITY);
  }

  #hashOf(sequence: CachedSequence, index: number): BlockHash {
    const { blockHashes: hashes, tokens } = sequence;
    while (hashes.length <= index) {
      const start = hashes.length * this.#blockSize;
      const block = tokens.slice(start, start + this.#blockSize);
      hashes.push(blockHash(hashes.at(-1) ?? ROOT_HASH, block, start, sequence.extraKeys));
    }
    return hashes[index]!;
  }
}

/** Name of a block of a group among those of all groups. */
function nameIn(group: number, hash: BlockHash): BlockHash {
  return group === 0 ? hash : `${hash}${group}`;
}

function ownBlocks({ tables, states }: CachedSequence): readonly number[] {
  return [
    ...tables.flatMap(({ blocks, numUnseenBlocks }) => blocks.slice(numUnseenBlocks)),
    ...states.blocks,
  ];
}

function sumOf<T>(items: readonly T[], numberOf: (item: T) => number): number {
  return items.reduce((sum, item) => sum + numberOf(item), 0);
}
