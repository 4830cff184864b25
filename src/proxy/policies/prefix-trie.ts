// Which instances have computed which beginnings of prompts: a trie over hashes of blocks, of bounded size, that forgets the
// least recently used first. An instance is named by its run: after a restart it has nothing.

interface Node {
  readonly id: number;
  /** Runs that have all blocks up to this one. */
  readonly holders: Set<number>;
}

const MAX_NODES = 65_536;
/** The least recent are forgotten: a block that every instance has tells nothing. */
const MAX_HOLDERS = 256;
const ROOT = 0;

export class PrefixTrie {
  readonly #maxNodes: number;
  /** By parent and block; the least recently used first. Children are always used before their parents. */
  readonly #nodes = new Map<string, Node>();
  #numIds = ROOT;

  constructor(maxNodes = MAX_NODES) {
    this.#maxNodes = maxNodes;
  }

  get size(): number {
    return this.#nodes.size;
  }

  /** How many blocks of the beginning each run has; runs without any are not listed. */
  depths(blockHashes: readonly string[]): Map<number, number> {
    const depths = new Map<number, number>();
    let parent = ROOT;
    for (const [index, blockHash] of blockHashes.entries()) {
      const node = this.#nodes.get(keyOf(parent, blockHash));
      if (node === undefined) break;
      for (const run of node.holders)
        if (index === 0 || depths.get(run) === index) depths.set(run, index + 1);
      parent = node.id;
    }
    return depths;
  }

  add(blockHashes: readonly string[], run: number): void {
    const path: [string, Node][] = [];
    let parent = ROOT;
    for (const blockHash of blockHashes.slice(0, this.#maxNodes)) {
      const key = keyOf(parent, blockHash);
      const node = this.#nodes.get(key) ?? { id: ++this.#numIds, holders: new Set() };
      path.push([key, node]);
      parent = node.id;
    }
    // From the end, so that what is forgotten first is the end of a prompt and never its beginning.
    for (const [key, node] of path.toReversed()) this.#use(key, node, run);
    this.#forget();
  }

  #use(key: string, node: Node, run: number): void {
    node.holders.delete(run);
    node.holders.add(run);
    if (node.holders.size > MAX_HOLDERS) dropOldest(node.holders);
    this.#nodes.delete(key);
    this.#nodes.set(key, node);
  }

  #forget(): void {
    while (this.#nodes.size > this.#maxNodes) dropOldest(this.#nodes);
  }
}

function keyOf(parent: number, blockHash: string): string {
  return `${parent}|${blockHash}`;
}

function dropOldest<K>(collection: { keys(): Iterator<K>; delete(key: K): boolean }): void {
  const { value, done } = collection.keys().next();
  if (!done) collection.delete(value);
}
