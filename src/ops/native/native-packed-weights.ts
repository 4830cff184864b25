// The weights of a backend of the addon by name, in the order of loading, and the file that they may come from.

import { addonDigest } from '../../native/native.ts';
import type { NativeBackend } from '../../native/native-backend.ts';
import type { PackedWeights } from '../packed-weights.ts';

export class NativePackedWeights implements PackedWeights {
  readonly #native: NativeBackend;
  readonly #kernels: string;
  /** That of the weight with the index i is names[i]. */
  readonly #names: string[] = [];
  /** So many of them, the first, are of the load that was closed. */
  #numClosed = 0;
  #isOpen = false;
  #defect: string | null = null;

  /** @param kernels backend and instruction set */
  constructor(native: NativeBackend, kernels: string) {
    this.#native = native;
    this.#kernels = kernels;
  }

  get layout(): string {
    return `${this.#kernels} ${addonDigest()}`;
  }

  get byteLength(): number {
    return this.#closed.reduce((sum, _, index) => sum + this.#native.weightBytes(index), 0);
  }

  open(path: string, key: string): void {
    this.#native.openPackedEntry(path, key);
    this.#isOpen = true;
    this.#defect = null;
  }

  close(): string | null {
    this.#isOpen = false;
    this.#numClosed = this.#names.length;
    this.#native.closePackedEntry();
    return this.#defect;
  }

  save(path: string, key: string): Promise<boolean> {
    return this.#native.savePackedEntry(path, key, this.#closed);
  }

  get #closed(): readonly string[] {
    return this.#names.slice(0, this.#numClosed);
  }

  /** The index of the weight: out of the open file, else as `pack` makes it. */
  load(name: string, pack: () => number): number {
    const index = this.#take(name) ?? pack();
    this.#names.push(name);
    return index;
  }

  #take(name: string): number | null {
    if (!this.#isOpen) return null;
    try {
      return this.#native.loadPacked(name);
    } catch (error) {
      this.#defect = error instanceof Error ? error.message : String(error);
      this.#isOpen = false;
      return null;
    }
  }
}
