// Which states of layers are kept beyond their sequences, for prompts that begin alike: each belongs to the prefix that a block ends.
// Numbers and hashes only; a step reads and writes the states themselves.
//
// The sequences of a step are computed side by side. So a snapshot that a step writes is found by the steps after it, and one that a
// sequence is to go on from is not overwritten before a later step than the one that reads it.

import type { BlockHash } from './prefix-hash.ts';

/** Only its owner changes it. */
export interface StateSnapshot {
  readonly index: number;
  /** The prefix that it is of; null is none that anybody may find. */
  hash: BlockHash | null;
  /** Sequences that are to go on from it, and the step that reads or writes it. */
  numUsers: number;
}

/** What becomes of the states of a sequence in a step, beside those that it goes on from and leaves. */
export interface StatePlan {
  /** The snapshot that it goes on from; null is from where it was, or from nothing at its beginning. */
  readonly snapshot: number | null;
  /** Where they are kept for others, as they are after so many of the sequence's tokens in the step. */
  readonly saves: readonly { readonly numTokens: number; readonly snapshot: number }[];
  /** Blocks that what it goes on from comes out of, having come from another instance, or is put into for one; null is neither. */
  readonly move: { readonly way: 'in' | 'out'; readonly blocks: readonly number[] } | null;
}

export class StateSnapshots {
  /** By prefix, the one used last at the end. */
  readonly #known = new Map<BlockHash, StateSnapshot>();
  readonly #free: StateSnapshot[];
  /** What the step that was planned last reads and writes. */
  readonly #read: StateSnapshot[] = [];
  readonly #written: StateSnapshot[] = [];

  constructor(count: number) {
    this.#free = Array.from({ length: count }, (_, i) => ({ index: count - 1 - i, hash: null, numUsers: 0 }));
  }

  /** Before a step is planned: what the one before it writes can be found. */
  beginStep(): void {
    for (const snapshot of this.#written.splice(0)) {
      if (snapshot.hash !== null) this.#known.set(snapshot.hash, snapshot);
      this.#giveBack(snapshot);
    }
    for (const snapshot of this.#read.splice(0)) this.#giveBack(snapshot);
  }

  has(hash: BlockHash): boolean {
    return this.#known.has(hash);
  }

  /** Whether the step that is being planned writes one. */
  isWritten(hash: BlockHash): boolean {
    return this.#written.some((snapshot) => snapshot.hash === hash);
  }

  /** The snapshot of a prefix that has one: it stays until it is read or released. */
  hold(hash: BlockHash): StateSnapshot {
    const snapshot = this.#known.get(hash)!;
    this.#known.delete(hash);
    this.#known.set(hash, snapshot);
    snapshot.numUsers += 1;
    return snapshot;
  }

  /** The step that is being planned reads what is held. */
  read(snapshot: StateSnapshot): void {
    this.#read.push(snapshot);
  }

  /** Nobody reads what is held. */
  release(snapshot: StateSnapshot): void {
    this.#giveBack(snapshot);
  }

  /** One that the step writes; null where the prefix has one, or all are in use. The one that was used longest ago gives way. */
  write(hash: BlockHash): StateSnapshot | null {
    if (this.has(hash) || this.isWritten(hash)) return null;
    const snapshot = this.#free.pop() ?? this.#evict();
    if (snapshot === null) return null;
    snapshot.hash = hash;
    snapshot.numUsers = 1;
    this.#written.push(snapshot);
    return snapshot;
  }

  /** Forgets every prefix. */
  reset(): void {
    for (const snapshot of this.#written) snapshot.hash = null;
    for (const snapshot of this.#known.values()) {
      snapshot.hash = null;
      if (snapshot.numUsers === 0) this.#free.push(snapshot);
    }
    this.#known.clear();
  }

  #evict(): StateSnapshot | null {
    for (const [hash, snapshot] of this.#known) {
      if (snapshot.numUsers > 0) continue;
      this.#known.delete(hash);
      return snapshot;
    }
    return null;
  }

  #giveBack(snapshot: StateSnapshot): void {
    snapshot.numUsers -= 1;
    if (snapshot.numUsers === 0 && snapshot.hash === null) this.#free.push(snapshot);
  }
}
