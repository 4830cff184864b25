// The data link to each D: made when the first blocks leave, shared by all transfers, closed when the D is no longer a
// peer.

import type { NativeMover } from './native-mover.ts';
import type { Peer } from './peer.ts';

interface Link {
  readonly peer: Peer;
  readonly opening: Promise<number | null>;
  /** Null until it is open. */
  link: number | null;
}

export class Links {
  readonly #mover: NativeMover;
  readonly #byAddress = new Map<string, Link>();

  constructor(mover: NativeMover) {
    this.#mover = mover;
  }

  /** Null where no connection comes about. */
  to(peer: Peer): Promise<number | null> {
    const known = this.#byAddress.get(peer.address);
    if (known?.peer === peer) return known.opening;
    if (known !== undefined) this.close(peer.address);
    const entry: Link = { peer, opening: this.#open(peer), link: null };
    this.#byAddress.set(peer.address, entry);
    return entry.opening;
  }

  /** The next transfer makes another. */
  down(link: number): void {
    for (const [address, entry] of this.#byAddress) {
      if (entry.link === link) this.#byAddress.delete(address);
    }
  }

  close(address: string): void {
    const entry = this.#byAddress.get(address);
    this.#byAddress.delete(address);
    void entry?.opening.then((link) => {
      if (link !== null) this.#mover.disconnect(link);
    });
  }

  async #open(peer: Peer): Promise<number | null> {
    const opened = await this.#mover.connect(peer.endpoints);
    // It may have gone down in the same moment.
    const link = opened !== null && this.#mover.isUp(opened) ? opened : null;
    const entry = this.#byAddress.get(peer.address);
    if (entry?.peer === peer) {
      entry.link = link;
      if (link === null) this.#byAddress.delete(peer.address);
    }
    return link;
  }
}
