// Moves blocks with the native threads, and brings what they tell to the transfer that it is about. It chooses the kind of
// link to a peer: from GPU to GPU or shared memory where both are on one host, else TCP, or NCCL where it is asked for. No other file of KV transfer knows the addon.

import type { TransportChoice } from '../../config/kv-transfer-config.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import { loadNative, ncclLibrary } from '../../native/native.ts';
import type { NativeTransferEngine, NativeTransferEvent } from '../../native/native-transfer.ts';
import type { KvMemoryPart, Transport } from '../connector.ts';
import type { Cut } from './cut.ts';
import type { Endpoints } from './messages.ts';

/** One socket does not fill a fast network: the kernel copies on one core a socket. */
const TCP_SOCKETS = 2;
/** The fastest first. */
const AUTO = ['cuda-ipc', 'shm', 'tcp', 'nccl'] as const;
const OF_GPUS: readonly Transport[] = ['cuda-ipc', 'nccl'];
const MAX_TOLD = 4096;
const CLOSED = 'this instance is closing';

interface MoverOptions {
  readonly parts: readonly KvMemoryPart[];
  /** See `KvCompatibility`. */
  readonly layerGroups?: readonly number[] | undefined;
  readonly receiveBytes: number;
  /** What of it, from its beginning, is memory of the GPUs where something comes from others. */
  readonly deviceBytes?: number;
  readonly isOnGpu?: boolean;
  readonly transport: TransportChoice;
  readonly ncclChannels?: number;
  /** Address of the TCP listener; null where nothing is received. */
  readonly listenIp: string | null;
  /** A link that is not up by then is given up. */
  readonly connectTimeoutMs: number;
  /** The same for NCCL. */
  readonly ncclTimeoutMs?: number;
  /** Gets messages for a person. */
  readonly inform?: (message: string) => void;
}

/** All blocks have left; nothing reads them any more, which comes last. */
type OnSend = (event: 'sent' | 'sendClosed') => void;
/** All blocks have come, or one that is damaged; nothing is written any more, which comes last. */
type OnReceive = (event: 'received' | 'corrupt' | 'receiveClosed') => void;
/** Nothing writes into the blocks any more; whether they are filled with what was sent. */
type OnLoaded = (isIntact: boolean) => void;

/** Where blocks come to. */
export interface ReceivePlaces {
  readonly firstBlock: number;
  readonly offsets: Float64Array;
  /** Left out, the last block is full. */
  readonly lastTokens?: number;
  /** [blocks] The group of layers of each; left out, all are of the first. */
  readonly groups?: Uint8Array;
}

/** What the rest of KV transfer needs of the native threads. */
export type BlockMover = Pick<NativeMover, keyof NativeMover>;

/** A connection that is being made. */
interface Opening {
  /** With why there is no link, where there is none. */
  readonly resolve: (link: number | null, reason: string) => void;
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
  /** What was last told of each peer: a peer that cannot be reached is tried again and again. */
  readonly #told = new Map<string, string>();
  #nextLoad = 1;
  #isClosed = false;

  /** @throws ConfigError where the listener's address cannot be had. */
  constructor(options: MoverOptions, onLinkDown: (link: number) => void) {
    const { parts, isOnGpu = false } = options;
    this.#options = options;
    this.#onLinkDown = onLinkDown;
    try {
      const { TransferEngine } = loadNative();
      const { transport } = options;
      if (transport !== 'auto' && OF_GPUS.includes(transport) && !isOnGpu) {
        throw new Error(
          `the transport ${transport} is one between GPUs: use --device cuda, or another transport`,
        );
      }
      this.#engine = new TransferEngine(parts, engineOptions(options), (events) => {
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

  bytesSentOver(transport: Transport): number {
    return this.#isClosed ? 0 : this.#engine.bytesSentOver(transport);
  }

  get bytesReceived(): number {
    return this.#isClosed ? 0 : this.#engine.bytesReceived;
  }

  /**
   * Null where no link comes about. A peer of another host has endpoints of its own host too, which do not answer here.
   * @param cut of the blocks of both; undefined where they are alike
   * @param name of the peer, for a person.
   */
  async connect(endpoints: Endpoints, cut?: Cut, name = 'another instance'): Promise<number | null> {
    const { transport: choice, isOnGpu = false } = this.#options;
    const failures: string[] = [];
    for (const transport of choice === 'auto' ? AUTO : [choice]) {
      const address = endpoints[transport] ?? null;
      if (address === null || (OF_GPUS.includes(transport) && !isOnGpu)) continue;
      const { link, reason } = await this.#connect(transport, address, cut);
      if (link !== null) {
        this.#tell(name, `KV blocks go to ${name} over ${transport}${inBrackets(failures)}`);
        return link;
      }
      failures.push(`${transport}: ${reason}`);
    }
    this.#tell(name, `no KV blocks can go to ${name}: there is no link${inBrackets(failures)}`);
    return null;
  }

  disconnect(link: number): void {
    if (!this.#isClosed) this.#engine.disconnect(link);
  }

  /** False as soon as a link is known to be down, before its event is heard. */
  isUp(link: number): boolean {
    return this.#up.has(link);
  }

  /**
   * A transfer of `numBlocks` blocks, which the engine thread saves under the same number.
   * @param groups [blocks] the group of layers of each; left out, all are of the first
   */
  openSend(transferId: number, numBlocks: number, onEvent: OnSend, groups?: Uint8Array): void {
    if (this.#isClosed) return;
    this.#sends.set(transferId, onEvent);
    this.#engine.openSend(transferId, numBlocks, groups);
  }

  /** Sends runs of the link's cut from `first` up to `end` over `link`: those that are computed, and the others when they are. */
  grant(transferId: number, link: number, ticket: bigint, first: number, end?: number): void {
    if (!this.#isClosed) this.#engine.grant(transferId, link, ticket, first, end);
  }

  /** `sendClosed` follows. */
  closeSend(transferId: number): void {
    if (!this.#isClosed) this.#engine.closeSend(transferId);
  }

  /** Lets blocks from `firstBlock` on come to these byte offsets of the receive memory; the last one has `lastTokens` tokens. */
  openReceive(ticket: bigint, places: ReceivePlaces, onEvent: OnReceive): void {
    if (this.#isClosed) return;
    this.#receives.set(ticket, onEvent);
    const { firstBlock, offsets, lastTokens, groups } = places;
    this.#engine.openReceive(ticket, firstBlock, offsets, lastTokens, groups);
  }

  /** How many pieces have come so far. */
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
    for (const link of [...this.#openings.keys()]) this.#opened(link, null, CLOSED);
    // Loads come first: what they read is closed when they are over.
    for (const load of [...this.#loads.keys()]) this.#handle({ type: 'loaded', load, isIntact: false });
    for (const send of [...this.#sends.keys()]) this.#handle({ type: 'sendClosed', send });
    for (const ticket of [...this.#receives.keys()]) this.#handle({ type: 'receiveClosed', ticket });
  }

  #tell(name: string, message: string): void {
    if (this.#told.get(name) === message || this.#isClosed) return;
    if (this.#told.size >= MAX_TOLD) this.#told.clear();
    this.#told.set(name, message);
    this.#options.inform?.(message);
  }

  async #connect(
    kind: Transport,
    address: string,
    cut: Cut | undefined,
  ): Promise<{ link: number | null; reason: string }> {
    if (this.#isClosed) return { link: null, reason: CLOSED };
    let opened: number;
    try {
      opened = this.#engine.connect(kind, address, TCP_SOCKETS, cut);
    } catch (error) {
      // A peer can name a size of blocks that no block here can be cut into.
      return { link: null, reason: messageOf(error) };
    }
    return new Promise((resolve) => {
      const { connectTimeoutMs, ncclTimeoutMs = connectTimeoutMs } = this.#options;
      const timeoutMs = kind === 'nccl' ? ncclTimeoutMs : connectTimeoutMs;
      const timer = setTimeout(() => this.disconnect(opened), timeoutMs);
      this.#openings.set(opened, { resolve: (link, reason) => resolve({ link, reason }), timer });
    });
  }

  #opened(link: number, result: number | null, reason = ''): boolean {
    const opening = this.#openings.get(link);
    if (opening === undefined) return false;
    this.#openings.delete(link);
    clearTimeout(opening.timer);
    opening.resolve(result, reason);
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
        if (!this.#opened(event.link, null, event.reason)) this.#onLinkDown(event.link);
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

function engineOptions(options: MoverOptions) {
  const { receiveBytes, deviceBytes = 0, transport, ncclChannels = 0, listenIp, isOnGpu = false } = options;
  const listens = (kind: Transport) => listenIp !== null && (transport === 'auto' || transport === kind);
  const cudaIpc = !listens('cuda-ipc') || !isOnGpu ? 'no' : transport === 'auto' ? 'possible' : 'required';
  const at = { host: listenIp ?? '', port: 0 };
  return {
    layerGroups: options.layerGroups,
    receiveBytes,
    deviceBytes,
    tcp: listens('tcp') ? at : null,
    shm: listens('shm'),
    cudaIpc,
    // A communicator takes memory and multiprocessors of the GPU: only where it is asked for.
    nccl: listens('nccl') && transport === 'nccl' ? at : null,
    ncclLibrary: ncclLibrary(),
    ncclChannels,
  } as const;
}

function inBrackets(failures: readonly string[]): string {
  return failures.length === 0 ? '' : ` (${failures.join('; ')})`;
}

function take<K, V>(map: Map<K, V>, key: K): V | undefined {
  const value = map.get(key);
  map.delete(key);
  return value;
}
