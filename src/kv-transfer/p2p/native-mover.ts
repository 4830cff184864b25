// Moves blocks with the native threads, and brings what they tell to the transfer that it is about. It chooses the kind of
// link to a peer: shared memory where both are on one host, else TCP. No other file of KV transfer knows the addon.

import type { TransportChoice } from '../../config/kv-transfer-config.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import { loadNative, type NativeTransferEngine, type NativeTransferEvent } from '../../native/native.ts';
import type { KvMemoryPart } from '../connector.ts';
import type { Endpoints } from './messages.ts';

/** One socket does not fill a fast network: the kernel copies on one core a socket. */
const TCP_SOCKETS = 2;

interface MoverOptions {
  readonly parts: readonly KvMemoryPart[];
  readonly receiveBytes: number;
  readonly transport: TransportChoice;
  /** Address of the TCP listener; null where nothing is received. */
  readonly listenIp: string | null;
  /** A link that is not up by then is given up. */
  readonly connectTimeoutMs: number;
}

/** All blocks have left; nothing reads them any more, which comes last. */
type OnSend = (event: 'sent' | 'sendClosed') => void;
/** All blocks have come, or one that is damaged; nothing is written any more, which comes last. */
type OnReceive = (event: 'received' | 'corrupt' | 'receiveClosed') => void;
/** Nothing writes into the blocks any more; whether they are filled with what was sent. */
type OnLoaded = (isIntact: boolean) => void;

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
  readonly #sends = new Map<number, OnSend>();
  readonly #receives = new Map<bigint, OnReceive>();
  readonly #loads = new Map<number, OnLoaded>();
  #nextLoad = 1;
  #isClosed = false;

  /** @throws ConfigError where the listener's address cannot be had. */
  constructor(options: MoverOptions, onLinkDown: (link: number) => void) {
    const { parts, receiveBytes, transport, listenIp } = options;
    this.#options = options;
    this.#onLinkDown = onLinkDown;
    const tcp = listenIp === null || transport === 'shm' ? null : { host: listenIp, port: 0 };
    const shm = listenIp !== null && transport !== 'tcp';
    try {
      const { TransferEngine } = loadNative();
      const [part] = parts;
      if (part === undefined || parts.length > 1) throw new Error('KV memory is in one part');
      this.#engine = new TransferEngine(part.token, { receiveBytes, tcp, shm }, (events) => {
        for (const event of events) this.#handle(event);
      });
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

  /** A transfer of `numBlocks` blocks, which the engine thread saves under the same number. */
  openSend(transferId: number, numBlocks: number, onEvent: OnSend): void {
    if (this.#isClosed) return;
    this.#sends.set(transferId, onEvent);
    this.#engine.openSend(transferId, numBlocks);
  }

  /** Sends blocks from `firstBlock` on over `link`: those that are computed, and the others when they are. */
  grant(transferId: number, link: number, ticket: bigint, firstBlock: number): void {
    if (!this.#isClosed) this.#engine.grant(transferId, link, ticket, firstBlock);
  }

  /** `sendClosed` follows. */
  closeSend(transferId: number): void {
    if (!this.#isClosed) this.#engine.closeSend(transferId);
  }

  /** Lets blocks from `firstBlock` on come to these byte offsets of the receive memory. */
  openReceive(ticket: bigint, firstBlock: number, offsets: Float64Array, onEvent: OnReceive): void {
    if (this.#isClosed) return;
    this.#receives.set(ticket, onEvent);
    this.#engine.openReceive(ticket, firstBlock, offsets);
  }

  /** How many blocks of layers have come so far. */
  progress(ticket: bigint): number {
    return this.#isClosed ? 0 : this.#engine.progress(ticket);
  }

  /** Ends its loads; `receiveClosed` follows. */
  closeReceive(ticket: bigint): void {
    if (!this.#isClosed) this.#engine.closeReceive(ticket);
  }

  /** Copies blocks from `firstBlock` on into `blocks`, as they come. */
  load(ticket: bigint, firstBlock: number, blocks: Int32Array, onLoaded: OnLoaded): void {
    if (this.#isClosed) {
      onLoaded(false);
      return;
    }
    const load = this.#nextLoad++;
    this.#loads.set(load, onLoaded);
    this.#engine.load(load, ticket, firstBlock, blocks);
  }

  /** Ends all threads: everything that is open fails, or is closed. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#engine.close();
    for (const link of [...this.#openings.keys()]) this.#opened(link, null);
    // Loads come first: what they read is closed when they are over.
    for (const load of [...this.#loads.keys()]) this.#handle({ type: 'loaded', load, isIntact: false });
    for (const send of [...this.#sends.keys()]) this.#handle({ type: 'sendClosed', send });
    for (const ticket of [...this.#receives.keys()]) this.#handle({ type: 'receiveClosed', ticket });
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
        this.#sends.get(event.send)?.('sent');
        break;
      case 'sendClosed':
        take(this.#sends, event.send)?.('sendClosed');
        break;
      case 'received':
      case 'corrupt':
        this.#receives.get(event.ticket)?.(event.type);
        break;
      case 'receiveClosed':
        take(this.#receives, event.ticket)?.('receiveClosed');
        break;
      case 'loaded':
        take(this.#loads, event.load)?.(event.isIntact);
        break;
    }
  }
}

function take<K, V>(map: Map<K, V>, key: K): V | undefined {
  const value = map.get(key);
  map.delete(key);
  return value;
}
