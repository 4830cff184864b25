// Which runs of which instances have computed which beginnings: a trie over pieces of prompts, of bounded size, the
// least recently used forgotten first.

interface Node {
  readonly id: number;
  /** Runs of instances that have everything up to here. */
  readonly holders: Set<number>;
}

const MAX_NODES = 65_536;
/** Earlier ones are forgotten: a piece that everybody has tells nothing. */
const MAX_HOLDERS = 256;
const ROOT = 0;

export class PrefixTrie {
  readonly #maxNodes: number;
  /** By parent and piece; the least recently used first. Children are always used before their parents. */
  readonly #nodes = new Map<string, Node>();
  #numIds = ROOT;

  constructor(maxNodes = MAX_NODES) {
    this.#maxNodes = maxNodes;
  }

  get size(): number {
    return this.#nodes.size;
  }

  /** How many pieces of the beginning each run has; those that have none are not listed. */
  depths(pieces: readonly string[]): Map<number, number> {
    const depths = new Map<number, number>();
    let parent = ROOT;
    for (const [index, piece] of pieces.entries()) {
      const node = this.#nodes.get(keyOf(parent, piece));
      if (node === undefined) break;
      for (const run of node.holders)
        if (index === 0 || depths.get(run) === index) depths.set(run, index + 1);
      parent = node.id;
    }
    return depths;
  }

  add(pieces: readonly string[], run: number): void {
    const path: [string, Node][] = [];
    let parent = ROOT;
    for (const piece of pieces.slice(0, this.#maxNodes)) {
      const key = keyOf(parent, piece);
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

function keyOf(parent: number, piece: string): string {
  return `${parent}|${piece}`;
}

function dropOldest<K>(collection: { keys(): Iterator<K>; delete(key: K): boolean }): void {
  const { value, done } = collection.keys().next();
  if (!done) collection.delete(value);
}
