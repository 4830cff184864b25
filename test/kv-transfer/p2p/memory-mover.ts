// Moves blocks between movers of this process, without native threads: a second implementation of what KV transfer needs.
// A block is a text. What native threads would tell comes in a later turn, as theirs does.

import type { Endpoints } from '../../../src/kv-transfer/p2p/messages.ts';
import type { BlockMover, ReceivePlaces } from '../../../src/kv-transfer/p2p/native-mover.ts';

interface Send {
  readonly numBlocks: number;
  readonly onEvent: (event: 'sent' | 'sendClosed') => void;
  readonly blocks: Map<number, string>;
  grant: { readonly link: number; readonly ticket: bigint; next: number } | null;
}

interface Receive {
  readonly firstBlock: number;
  readonly offsets: Float64Array;
  readonly onEvent: (event: 'received' | 'corrupt' | 'receiveClosed') => void;
  progress: number;
  readonly loads: Set<Load>;
}

interface Load {
  readonly firstBlock: number;
  readonly blocks: Int32Array;
  readonly onLoaded: (isIntact: boolean) => void;
}

const movers = new Map<string, MemoryMover>();
let numMovers = 0;

export class MemoryMover implements BlockMover {
  readonly endpoints: Endpoints;
  /** KV memory: contents of each block. */
  readonly kv = new Map<number, string>();
  /** Receive memory, by offset. */
  readonly received = new Map<number, string>();
  /** A test puts its own here. */
  onLinkDown: (link: number) => void = () => {};
  /** Connections that were asked for. */
  numConnects = 0;
  /** Contents that arrive otherwise than they were sent. */
  damage: (block: string) => string = (block) => block;
  bytesSent = 0;
  readonly bytesSentOver = (): number => 0;
  bytesReceived = 0;
  readonly #links = new Map<number, MemoryMover>();
  readonly #sends = new Map<number, Send>();
  readonly #receives = new Map<bigint, Receive>();

  constructor() {
    this.endpoints = { shm: null, tcp: `memory ${++numMovers}` };
    movers.set(this.endpoints.tcp ?? '', this);
  }

  /** Sends and receives that are open. */
  get numOpen(): number {
    return this.#sends.size + this.#receives.size;
  }

  get numLinks(): number {
    return this.#links.size;
  }

  async connect({ tcp }: Endpoints): Promise<number | null> {
    this.numConnects += 1;
    const other = movers.get(tcp ?? '');
    if (other === undefined) return null;
    this.#links.set(this.numConnects, other);
    return this.numConnects;
  }

  disconnect(link: number): void {
    if (this.#links.delete(link)) setImmediate(() => this.onLinkDown(link));
  }

  isUp(link: number): boolean {
    return this.#links.has(link);
  }

  /** As the engine thread does when block `index` of a transfer is computed. */
  save(transferId: number, index: number, contents: string): void {
    this.#sends.get(transferId)?.blocks.set(index, contents);
    this.#flush(transferId);
  }

  openSend(transferId: number, numBlocks: number, onEvent: Send['onEvent'] = () => {}): void {
    this.#sends.set(transferId, { numBlocks, onEvent, blocks: new Map(), grant: null });
  }

  grant(transferId: number, link: number, ticket: bigint, firstBlock: number): void {
    const send = this.#sends.get(transferId);
    if (send !== undefined) send.grant = { link, ticket, next: firstBlock };
    this.#flush(transferId);
  }

  closeSend(transferId: number): void {
    const send = this.#sends.get(transferId);
    this.#sends.delete(transferId);
    if (send !== undefined) setImmediate(send.onEvent, 'sendClosed');
  }

  openReceive(
    ticket: bigint,
    { firstBlock, offsets }: ReceivePlaces,
    onEvent: Receive['onEvent'] = () => {},
  ): void {
    this.#receives.set(ticket, { firstBlock, offsets, onEvent, progress: 0, loads: new Set() });
  }

  progress(ticket: bigint): number {
    return this.#receives.get(ticket)?.progress ?? 0;
  }

  closeReceive(ticket: bigint): void {
    const receive = this.#receives.get(ticket);
    this.#receives.delete(ticket);
    if (receive === undefined) return;
    for (const { onLoaded } of receive.loads) setImmediate(onLoaded, false);
    setImmediate(receive.onEvent, 'receiveClosed');
  }

  load(ticket: bigint, firstBlock: number, blocks: Int32Array, onLoaded: (isIntact: boolean) => void): void {
    const receive = this.#receives.get(ticket);
    if (receive === undefined) {
      setImmediate(onLoaded, false);
      return;
    }
    receive.loads.add({ firstBlock, blocks, onLoaded });
    this.#fill(receive);
  }

  close(): void {
    movers.delete(this.endpoints.tcp ?? '');
    this.#sends.clear();
    this.#receives.clear();
  }

  #flush(transferId: number): void {
    const send = this.#sends.get(transferId);
    const { grant } = send ?? {};
    if (send === undefined || grant === undefined || grant === null) return;
    for (let block = send.blocks.get(grant.next); block !== undefined; block = send.blocks.get(grant.next)) {
      const other = this.#links.get(grant.link);
      if (other !== undefined) other.#receive(grant.ticket, grant.next, block);
      this.bytesSent += block.length;
      grant.next += 1;
    }
    if (grant.next === send.numBlocks) setImmediate(send.onEvent, 'sent');
  }

  #receive(ticket: bigint, index: number, block: string): void {
    const receive = this.#receives.get(ticket);
    const offset = receive?.offsets[index - receive.firstBlock];
    if (receive === undefined || offset === undefined) return;
    const arrived = this.damage(block);
    if (arrived !== block) {
      setImmediate(receive.onEvent, 'corrupt');
      return;
    }
    this.received.set(offset, arrived);
    this.bytesReceived += arrived.length;
    receive.progress += 1;
    if (receive.progress === receive.offsets.length) setImmediate(receive.onEvent, 'received');
    this.#fill(receive);
  }

  /** Copies what has come into the blocks of the loads, which end when all has come. */
  #fill({ firstBlock, offsets, progress, loads }: Receive): void {
    for (const load of loads) {
      for (const [index, block] of load.blocks.entries()) {
        const contents = this.received.get(offsets[load.firstBlock + index - firstBlock] ?? -1);
        if (contents !== undefined) this.kv.set(block, contents);
      }
      if (progress < offsets.length) continue;
      loads.delete(load);
      setImmediate(load.onLoaded, true);
    }
  }
}
