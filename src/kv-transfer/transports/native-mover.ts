// The native transfer engine as the connector uses it: promises instead of events where there is one answer, and the
// choice of the transport to a peer.

import type { TransportChoice } from '../../config/kv-transfer-config.ts';
import { loadNative, type NativeTransferEngine, type NativeTransferEvent } from '../../native/native.ts';
import type { BlockMover, MoverEvents } from '../p2p/block-mover.ts';
import type { Endpoints } from '../p2p/identity.ts';

export interface MoverOptions {
  /** Of the KV memory; can be used once. */
  readonly memoryToken: bigint;
  readonly receiveBytes: number;
  /** Address of the TCP listener. */
  readonly ip: string;
  readonly transport: TransportChoice;
  /** Whether peers send to this instance. */
  readonly listens: boolean;
}

type LinkKind = 'shm' | 'tcp';

/** Connections of one link over TCP: one alone does not fill a fast network. */
const TCP_SOCKETS = 4;

/** @throws NativeAddonError where the addon is not built. */
export function openMover(options: MoverOptions, events: MoverEvents): BlockMover {
  return new NativeMover(options, events);
}

class NativeMover implements BlockMover {
  readonly #engine: NativeTransferEngine;
  readonly #events: MoverEvents;
  readonly #kinds: readonly LinkKind[];
  /** What is waited for, by link, send, ticket and load. */
  readonly #opening = new Map<number, (isUp: boolean) => void>();
  readonly #closingSends = new Map<number, () => void>();
  readonly #closingReceives = new Map<bigint, () => void>();
  readonly #loading = new Map<number, (isIntact: boolean) => void>();
  #lastLoad = 0;
  #isClosed = false;

  constructor({ memoryToken, receiveBytes, ip, transport, listens }: MoverOptions, events: MoverEvents) {
    const { TransferEngine } = loadNative();
    this.#events = events;
    this.#kinds = transport === 'auto' ? ['shm', 'tcp'] : [transport];
    const tcp = listens && this.#kinds.includes('tcp') ? { host: ip, port: 0 } : null;
    const shm = listens && this.#kinds.includes('shm');
    this.#engine = new TransferEngine(memoryToken, { receiveBytes, tcp, shm }, () => this.#takeEvents());
  }

  get endpoints(): Endpoints {
    return this.#engine.endpoints;
  }

  get bytesSent(): number {
    return this.#engine.bytesSent;
  }

  get bytesReceived(): number {
    return this.#engine.bytesReceived;
  }

  /** The first kind that both have and that connects: shared memory reaches only instances of this host. */
  async connect(endpoints: Endpoints): Promise<number | null> {
    for (const kind of this.#kinds) {
      const address = endpoints[kind];
      if (address === null || this.#isClosed) continue;
      const link = this.#engine.connect(kind, address, TCP_SOCKETS);
      const isUp = await new Promise<boolean>((resolve) => this.#opening.set(link, resolve));
      if (isUp) return link;
    }
    return null;
  }

  disconnect(link: number): void {
    if (!this.#isClosed) this.#engine.disconnect(link);
  }

  openSend(transferId: number, numBlocks: number): void {
    this.#engine.openSend(transferId, numBlocks);
  }

  grant(transferId: number, link: number, ticket: bigint, firstBlock: number): void {
    this.#engine.grant(transferId, link, ticket, firstBlock);
  }

  closeSend(transferId: number): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    const closed = new Promise<void>((resolve) => this.#closingSends.set(transferId, resolve));
    this.#engine.closeSend(transferId);
    return closed;
  }

  openReceive(ticket: bigint, firstBlock: number, offsets: Float64Array): void {
    this.#engine.openReceive(ticket, firstBlock, offsets);
  }

  progress(ticket: bigint): number {
    return this.#engine.progress(ticket);
  }

  closeReceive(ticket: bigint): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    const closed = new Promise<void>((resolve) => this.#closingReceives.set(ticket, resolve));
    this.#engine.closeReceive(ticket);
    return closed;
  }

  load(ticket: bigint, firstBlock: number, blocks: Int32Array): Promise<boolean> {
    if (this.#isClosed) return Promise.resolve(false);
    this.#lastLoad = (this.#lastLoad + 1) % 2 ** 31;
    const load = this.#lastLoad;
    const loaded = new Promise<boolean>((resolve) => this.#loading.set(load, resolve));
    this.#engine.load(load, ticket, firstBlock, blocks);
    return loaded;
  }

  close(): void {
    this.#isClosed = true;
    this.#engine.close();
    for (const resolve of this.#opening.values()) resolve(false);
    for (const resolve of this.#closingSends.values()) resolve();
    for (const resolve of this.#closingReceives.values()) resolve();
    for (const resolve of this.#loading.values()) resolve(false);
  }

  #takeEvents(): void {
    if (this.#isClosed) return;
    for (const event of this.#engine.takeEvents()) this.#handle(event);
  }

  #handle(event: NativeTransferEvent): void {
    switch (event.type) {
      case 'linkUp':
        settle(this.#opening, event.link, true);
        break;
      case 'linkDown':
        if (!settle(this.#opening, event.link, false)) this.#events.linkDown(event.link, event.reason);
        break;
      case 'sent':
        this.#events.sent(event.send);
        break;
      case 'sendClosed':
        settle(this.#closingSends, event.send, undefined);
        break;
      case 'received':
        this.#events.received(event.ticket);
        break;
      case 'corrupt':
        this.#events.corrupt(event.ticket);
        break;
      case 'receiveClosed':
        settle(this.#closingReceives, event.ticket, undefined);
        break;
      case 'loaded':
        settle(this.#loading, event.load, event.isIntact);
    }
  }
}

/** Whether somebody waited for it. */
function settle<K, T>(waiting: Map<K, (value: T) => void>, key: K, value: T): boolean {
  const resolve = waiting.get(key);
  waiting.delete(key);
  resolve?.(value);
  return resolve !== undefined;
}
