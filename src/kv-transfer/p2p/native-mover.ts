// Moves blocks with the native threads; their answers become promises. It chooses the kind of link to a peer: shared
// memory where both are on one host, else TCP. No other file of KV transfer knows the addon.

import type { TransportChoice } from '../../config/kv-transfer-config.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import { loadNative, type NativeTransferEngine, type NativeTransferEvent } from '../../native/native.ts';
import type { Endpoints } from './messages.ts';

/** One socket does not fill a fast network: the kernel copies on one core a socket. */
const TCP_SOCKETS = 2;

interface MoverOptions {
  /** Names the KV memory, once. */
  readonly memoryToken: bigint;
  readonly receiveBytes: number;
  readonly transport: TransportChoice;
  /** Address of the TCP listener; null where nothing is received. */
  readonly listenIp: string | null;
  /** A link that is not up by then is given up. */
  readonly connectTimeoutMs: number;
}

/** All blocks of a receive have come, or one that is damaged. */
type ReceiveEvent = 'received' | 'corrupt';

/** What the rest of KV transfer needs of the native threads. */
export type BlockMover = Pick<NativeMover, keyof NativeMover>;

/** A connection that is being made. */
interface Opening {
  readonly resolve: (link: number | null) => void;
  readonly timer: NodeJS.Timeout;
}

export class NativeMover {
  /** What peers connect to. */
  readonly endpoints: Endpoints;
  readonly #engine: NativeTransferEngine;
  readonly #options: MoverOptions;
  readonly #onLinkDown: (link: number) => void;
  readonly #openings = new Map<number, Opening>();
  readonly #up = new Set<number>();
  readonly #onSent = new Map<number, () => void>();
  readonly #onReceive = new Map<bigint, (event: ReceiveEvent) => void>();
  readonly #closingSends = new Map<number, () => void>();
  readonly #closingReceives = new Map<bigint, () => void>();
  readonly #loads = new Map<number, (isIntact: boolean) => void>();
  #nextLoad = 1;
  #isClosed = false;

  /** @throws ConfigError where the listener's address cannot be had. */
  constructor(options: MoverOptions, onLinkDown: (link: number) => void) {
    const { memoryToken, receiveBytes, transport, listenIp } = options;
    this.#options = options;
    this.#onLinkDown = onLinkDown;
    const tcp = listenIp === null || transport === 'shm' ? null : { host: listenIp, port: 0 };
    const shm = listenIp !== null && transport !== 'tcp';
    try {
      const { TransferEngine } = loadNative();
      this.#engine = new TransferEngine(memoryToken, { receiveBytes, tcp, shm }, () => this.#takeEvents());
    } catch (error) {
      throw new ConfigError(`KV transfer cannot start: ${messageOf(error)}`, {
        param: 'kv-transfer-config',
        cause: error,
      });
    }
    this.endpoints = this.#engine.endpoints;
  }

  get bytesSent(): number {
    return this.#isClosed ? 0 : this.#engine.bytesSent;
  }

  get bytesReceived(): number {
    return this.#isClosed ? 0 : this.#engine.bytesReceived;
  }

  /**
   * Null where no link comes about. A peer of another host has a shared-memory endpoint too, which does not answer here.
   */
  async connect({ shm, tcp }: Endpoints): Promise<number | null> {
    const { transport } = this.#options;
    const local = shm !== null && transport !== 'tcp' ? await this.#connect('shm', shm) : null;
    if (local !== null || tcp === null || transport === 'shm') return local;
    return this.#connect('tcp', tcp);
  }

  disconnect(link: number): void {
    if (!this.#isClosed) this.#engine.disconnect(link);
  }

  /** False as soon as a link is known to be down, before its event is heard. */
  isUp(link: number): boolean {
    return this.#up.has(link);
  }

  /** A transfer of `numBlocks` blocks, which the engine thread saves under the same number. `onSent`: all have left. */
  openSend(transferId: number, numBlocks: number, onSent: () => void): void {
    if (this.#isClosed) return;
    this.#onSent.set(transferId, onSent);
    this.#engine.openSend(transferId, numBlocks);
  }

  /** Sends blocks from `firstBlock` on over `link`: those that are computed, and the others when they are. */
  grant(transferId: number, link: number, ticket: bigint, firstBlock: number): void {
    if (!this.#isClosed) this.#engine.grant(transferId, link, ticket, firstBlock);
  }

  /** Resolves when nothing reads the blocks any more. */
  closeSend(transferId: number): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      this.#closingSends.set(transferId, resolve);
      this.#engine.closeSend(transferId);
    });
  }

  /** Lets blocks from `firstBlock` on come to these byte offsets of the receive memory. */
  openReceive(
    ticket: bigint,
    firstBlock: number,
    offsets: Float64Array,
    onEvent: (event: ReceiveEvent) => void,
  ): void {
    if (this.#isClosed) return;
    this.#onReceive.set(ticket, onEvent);
    this.#engine.openReceive(ticket, firstBlock, offsets);
  }

  /** How many blocks of layers have come so far. */
  progress(ticket: bigint): number {
    return this.#isClosed ? 0 : this.#engine.progress(ticket);
  }

  /** Resolves when nothing is written into the receive memory any more. */
  closeReceive(ticket: bigint): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      this.#closingReceives.set(ticket, resolve);
      this.#engine.closeReceive(ticket);
    });
  }

  /** Copies blocks from `firstBlock` on into `blocks`; resolves to whether they are what was sent. */
  load(ticket: bigint, firstBlock: number, blocks: Int32Array): Promise<boolean> {
    if (this.#isClosed) return Promise.resolve(false);
    return new Promise((resolve) => {
      const load = this.#nextLoad++;
      this.#loads.set(load, resolve);
      this.#engine.load(load, ticket, firstBlock, blocks);
    });
  }

  /** Ends all threads; every promise that is open resolves. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#engine.close();
    for (const link of [...this.#openings.keys()]) this.#opened(link, null);
    for (const resolve of [...this.#closingSends.values(), ...this.#closingReceives.values()]) resolve();
    for (const resolve of this.#loads.values()) resolve(false);
  }

  #connect(kind: 'shm' | 'tcp', address: string): Promise<number | null> {
    if (this.#isClosed) return Promise.resolve(null);
    return new Promise((resolve) => {
      const link = this.#engine.connect(kind, address, TCP_SOCKETS);
      const timer = setTimeout(() => this.disconnect(link), this.#options.connectTimeoutMs);
      this.#openings.set(link, { resolve, timer });
    });
  }

  #opened(link: number, result: number | null): boolean {
    const opening = this.#openings.get(link);
    if (opening === undefined) return false;
    this.#openings.delete(link);
    clearTimeout(opening.timer);
    opening.resolve(result);
    return true;
  }

  #takeEvents(): void {
    if (this.#isClosed) return;
    for (const event of this.#engine.takeEvents()) this.#handle(event);
  }

  #handle(event: NativeTransferEvent): void {
    switch (event.type) {
      case 'linkUp':
        this.#up.add(event.link);
        this.#opened(event.link, event.link);
        break;
      case 'linkDown':
        this.#up.delete(event.link);
        if (!this.#opened(event.link, null)) this.#onLinkDown(event.link);
        break;
      case 'sent':
        this.#onSent.get(event.send)?.();
        break;
      case 'sendClosed':
        this.#onSent.delete(event.send);
        settle(this.#closingSends, event.send, undefined);
        break;
      case 'received':
      case 'corrupt':
        this.#onReceive.get(event.ticket)?.(event.type);
        break;
      case 'receiveClosed':
        this.#onReceive.delete(event.ticket);
        settle(this.#closingReceives, event.ticket, undefined);
        break;
      case 'loaded':
        settle(this.#loads, event.load, event.isIntact);
        break;
    }
  }
}

function settle<K, V>(waiting: Map<K, (value: V) => void>, key: K, value: V): void {
  const resolve = waiting.get(key);
  waiting.delete(key);
  resolve?.(value);
}
