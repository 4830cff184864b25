// The transfers of one side (P or D) by their keys: brings each event to its transfer, one after the other, keeps a peer
// pinned while a transfer with it is open, and remembers which transfers are over.

import type { PairedRequestId } from '../../cluster/request-id.ts';
import type { Cut } from './cut.ts';
import { type Answer, idOfKey, type Request } from './messages.ts';
import { type Peer, PeerError, type Peers } from './peers.ts';

/** A transfer between two events. */
export interface Entry {
  transfer: { readonly key: string; readonly address: string };
  /** The other instance, from the first message about the transfer on. */
  peer: Peer | null;
}

/** What happens to all transfers with one peer. */
export type PeerEvent = Readonly<
  | { kind: 'peerGone' }
  /** It has forgotten all transfers. */
  | { kind: 'peerRestarted' }
>;

/** Of transfers that are over; the oldest is forgotten. */
const MAX_REMEMBERED = 4096;

export class Transfers<E extends Entry, Event> {
  readonly #peers: Peers;
  readonly #handle: (entry: E, event: Event | PeerEvent) => void;
  readonly #byKey = new Map<string, E>();
  readonly #over = new Set<string>();
  readonly #events: (readonly [E, Event | PeerEvent])[] = [];
  #isHandling = false;

  constructor(peers: Peers, handle: (entry: E, event: Event | PeerEvent) => void) {
    this.#peers = peers;
    this.#handle = handle;
  }

  get size(): number {
    return this.#byKey.size;
  }

  [Symbol.iterator](): IterableIterator<E> {
    return this.#byKey.values();
  }

  get(key: string): E | undefined {
    return this.#byKey.get(key);
  }

  /** Null for a peer that the key does not name: it has no say in this transfer. */
  getFrom(peer: Peer, key: string): E | null {
    const entry = this.#byKey.get(key);
    return entry?.transfer.address === peer.address ? entry : null;
  }

  add(entry: E): void {
    const { key } = entry.transfer;
    this.#byKey.set(key, entry);
    this.#over.delete(key);
  }

  /** Another transfer may have its key. */
  remove(entry: E): void {
    const { key } = entry.transfer;
    if (this.#byKey.get(key) === entry) this.#byKey.delete(key);
  }

  /** Remembers a key that is over, or all keys of a request. */
  markOver(name: string): void {
    this.#over.delete(name);
    this.#over.add(name);
    const [oldest] = this.#over;
    if (this.#over.size > MAX_REMEMBERED && oldest !== undefined) this.#over.delete(oldest);
  }

  isOver(key: string): boolean {
    return this.#over.has(key) || this.#over.has(idOfKey(key)?.id ?? '');
  }

  /** Returns when the event is handled, unless one is being handled already: no transfer is entered twice. */
  push(entry: E, event: Event | PeerEvent): void {
    this.#events.push([entry, event]);
    if (this.#isHandling) return;
    this.#isHandling = true;
    try {
      for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift()) {
        this.#handle(...next);
      }
    } finally {
      this.#isHandling = false;
    }
  }

  pushAll(event: Event | PeerEvent, concerns: (entry: E) => boolean = () => true): void {
    for (const entry of [...this.#byKey.values()]) if (concerns(entry)) this.push(entry, event);
  }

  /** Something happened to all transfers of a request of the proxy. */
  pushToRequest({ id }: PairedRequestId, event: Event): void {
    this.pushAll(event, ({ transfer }) => transfer.key.startsWith(`${id}#`));
  }

  pushToPeer(address: string, event: PeerEvent): void {
    this.pushAll(event, ({ peer }) => peer?.address === address);
  }

  /** The connection to `peer` stays until `unpin`. */
  pin(entry: E, peer: Peer): void {
    if (entry.peer !== peer) this.unpin(entry);
    entry.peer = peer;
    peer.pins.add(entry);
  }

  unpin(entry: E): void {
    entry.peer?.pins.delete(entry);
  }

  /**
   * Pins the other instance and asks it.
   * @param request with sizes by the blocks of both
   * @returns its answer, or why there is none.
   */
  async ask(entry: E, request: (cut: Cut) => Request): Promise<Answer | PeerError['code']> {
    try {
      const peer = this.#peers.get(entry.transfer.address);
      this.pin(entry, peer);
      await peer.ready();
      return peer.cut === null ? 'gone' : await peer.request(request(peer.cut));
    } catch (error) {
      if (error instanceof PeerError) return error.code;
      throw error;
    }
  }
}
