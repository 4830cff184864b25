// The consumer's half of KV transfer (D): holds all transfers by their keys, brings each event to its state machine and
// does what comes of it. What a transfer does when is decided in consumer.ts.

import { randomBytes } from 'node:crypto';
import type { PairedRequestId } from '../../cluster/request-id.ts';
import type {
  KvTransferCommand,
  KvTransferEvent,
  KvTransferStats,
  RecomputeReason,
  RequestTransfer,
} from '../connector.ts';
import { reduceConsumer } from './consumer.ts';
import {
  type ConsumerEffect,
  type ConsumerEvent,
  type ConsumerTransfer,
  isExpected,
  pulledTransfer,
  pushedTransfer,
  type TransferDescription,
} from './consumer-state.ts';
import type { Deadlines } from './deadlines.ts';
import { EventQueue } from './event-queue.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import type { NativeMover } from './native-mover.ts';
import { type Peer, PeerError } from './peer.ts';
import type { Peers } from './peers.ts';
import { RecentKeys } from './recent-keys.ts';
import type { SlotPool } from './slot-pool.ts';
import { idOfKey, isKeyOf } from './transfer-key.ts';

export interface KvConsumerOptions {
  readonly mover: NativeMover;
  readonly peers: Peers;
  readonly slots: SlotPool;
  readonly deadlines: Deadlines;
  readonly applyTransfer: (command: KvTransferCommand) => void;
  readonly blockSize: number;
}

interface Entry {
  transfer: ConsumerTransfer;
  /** P, while blocks are expected of it: the connection to it stays. */
  peer: Peer | null;
}

type EffectOf<K extends ConsumerEffect['kind']> = Extract<ConsumerEffect, { readonly kind: K }>;

/** Transfers that wait for slots; those beyond are computed here. */
const MAX_WAITING = 1024;

export class KvConsumer {
  readonly #options: KvConsumerOptions;
  readonly #byKey = new Map<string, Entry>();
  readonly #byTicket = new Map<bigint, Entry>();
  /** By the numbers of the sequences. */
  readonly #byTransferId = new Map<number, Entry>();
  /** In the order in which they get slots. */
  readonly #waiting = new Set<Entry>();
  readonly #ended = new RecentKeys();
  readonly #events = new EventQueue<readonly [Entry, ConsumerEvent]>((next) => this.#handle(...next));
  readonly #counts = { pushed: 0, pulled: 0, viaBuffer: 0, viaPool: 0, loadedTokens: 0, corruptPieces: 0 };
  readonly #recomputed: Record<RecomputeReason, number> = {
    ...{ peer_gone: 0, unknown: 0, no_room: 0, late: 0, corrupt: 0, mismatch: 0 },
  };

  constructor(options: KvConsumerOptions) {
    this.#options = options;
  }

  /** Transfers that are under way, received and not claimed, or claimed and not ended. */
  get size(): number {
    return this.#byKey.size;
  }

  get stats(): KvTransferStats['receive'] {
    const { slots, mover } = this.#options;
    return {
      ...this.#counts,
      recomputed: { ...this.#recomputed },
      bytes: mover.bytesReceived,
      areas: slots.numTaken,
      bufferUsedBytes: slots.bufferUsedBytes,
      poolUsedBytes: slots.poolUsedBytes,
    };
  }

  /**
   * A request is here that wants blocks for sequences of these numbers. Null where its prompt is computed here: the
   * blocks can never come, or another request has its key.
   */
  open(about: TransferDescription, transferIds: readonly number[]): RequestTransfer | null {
    const known = this.#byKey.get(about.key);
    if (known?.transfer.isClaimed) return null;
    const refusal = this.#refusalOf(about, known?.transfer);
    if (refusal !== null) {
      this.#recomputed[refusal] += 1;
      this.discard(about.key, about.address);
      return null;
    }
    this.#ended.delete(about.key);
    const entry = known ?? this.#add(pulledTransfer(about, Date.now()));
    for (const transferId of transferIds) this.#byTransferId.set(transferId, entry);
    this.#events.push([entry, { kind: 'claimed', transferIds }]);
    return {
      sequences: transferIds.map((transferId) => ({ kind: 'load', transferId })),
      answerable: () => Promise.resolve(),
      end: () => this.#events.push([entry, { kind: 'ended' }]),
    };
  }

  /** Frees what came for this key and was not claimed, and lets P free it. */
  discard(key: string, address: string): void {
    this.#ended.add(key);
    const known = this.#byKey.get(key);
    if (known !== undefined) this.#events.push([known, { kind: 'discarded' }]);
    void this.#tellCancel(key, address);
  }

  /** P asks for room. */
  reserved(peer: Peer, message: MessageOf<'reserve'>): Unnumbered<Answer> {
    const { key, hash, num_tokens, num_blocks } = message;
    if (num_tokens < 1 || num_blocks !== this.#blocksOf(num_tokens)) {
      const reason = `${num_blocks} blocks do not hold ${num_tokens} tokens`;
      return { type: 'refused', code: 'malformed', reason };
    }
    const known = this.#byKey.get(key)?.transfer;
    if (known !== undefined) return reservedAgain(known, hash);
    if (this.#hasEnded(key)) return unasked();
    // A transfer that waits for slots comes first.
    const slots = this.#waiting.size === 0 ? this.#options.slots.take(num_blocks) : null;
    if (slots === null) return { type: 'full' };
    const buffer = { slots, ticket: freshTicket(), firstBlock: 0, isClosing: false };
    const about = { key, hash, address: peer.address, numTokens: num_tokens };
    const entry = this.#add(pushedTransfer(about, buffer, Date.now()));
    this.#openBuffer(entry, { kind: 'openBuffer', buffer });
    this.#attach(entry, peer);
    return { type: 'granted', ticket: ticketText(buffer.ticket) };
  }

  /** P will not send. */
  cancelled(peer: Peer, key: string): void {
    const entry = this.#byKey.get(key);
    if (entry?.transfer.address === peer.address) this.#events.push([entry, { kind: 'cancelledByPeer' }]);
  }

  /** What the engine thread says of a sequence. */
  onTransferEvent(event: KvTransferEvent): void {
    const { transferId } = event;
    const entry = this.#byTransferId.get(transferId);
    if (event.kind === 'loadEnded') {
      if (entry !== undefined) this.#events.push([entry, { kind: 'unwanted', transferId }]);
    } else if (entry !== undefined) {
      this.#events.push([entry, { ...event, kind: 'wanted' }]);
    } else {
      // The request ended before the engine knew.
      this.#options.applyTransfer({ kind: 'loaded', transferId, numTokens: 0 });
    }
  }

  /** All blocks of this ticket have come. */
  received(ticket: bigint): void {
    const entry = this.#byTicket.get(ticket);
    if (entry !== undefined) this.#events.push([entry, { kind: 'received', ticket }]);
  }

  corrupt(ticket: bigint): void {
    this.#counts.corruptPieces += 1;
    const entry = this.#byTicket.get(ticket);
    if (entry !== undefined) this.#events.push([entry, { kind: 'corrupt', ticket }]);
  }

  /** P is dead. */
  gone(address: string): void {
    this.#tellAttached(address, { kind: 'peerGone' });
  }

  restarted(address: string): void {
    this.#tellAttached(address, { kind: 'peerRestarted' });
  }

  /** Gives up all transfers of a request of the proxy, also those that P may still announce. */
  cancel(id: PairedRequestId): void {
    this.#ended.add(id.id);
    for (const entry of [...this.#byKey.values()]) {
      if (isKeyOf(entry.transfer.key, id)) this.#events.push([entry, { kind: 'ended' }]);
    }
  }

  sweep(): void {
    for (const entry of [...this.#byKey.values()]) {
      const { buffer } = entry.transfer;
      const progress = buffer?.isClosing === false ? this.#options.mover.progress(buffer.ticket) : 0;
      this.#events.push([entry, { kind: 'tick', progress }]);
    }
  }

  /** Nothing is waited for any more; what is being copied ends when the mover closes. */
  close(): void {
    for (const entry of [...this.#byKey.values()]) this.#events.push([entry, { kind: 'ended' }]);
  }

  #add(transfer: ConsumerTransfer): Entry {
    const entry = { transfer, peer: null };
    this.#byKey.set(transfer.key, entry);
    return entry;
  }

  #handle(entry: Entry, event: ConsumerEvent): void {
    const [transfer, effects] = reduceConsumer(entry.transfer, event, Date.now(), this.#options);
    entry.transfer = transfer;
    for (const effect of effects) this.#run(entry, effect);
    if (transfer.phase === 'waiting') this.#waiting.add(entry);
    else this.#waiting.delete(entry);
    if (transfer.phase !== 'pulling' && transfer.phase !== 'arriving') this.#attach(entry, null);
  }

  #run(entry: Entry, effect: ConsumerEffect): void {
    switch (effect.kind) {
      case 'takeSlots':
        this.#takeSlots(entry, effect);
        break;
      case 'giveSlots':
        this.#options.slots.give(effect.slots);
        this.#offerSlots();
        break;
      case 'openBuffer':
        this.#openBuffer(entry, effect);
        break;
      case 'closeBuffer':
        void this.#closeBuffer(entry, effect);
        break;
      case 'pull':
        void this.#pull(entry, effect);
        break;
      case 'pullLater':
        this.#pullLater(entry, effect);
        break;
      case 'load':
        void this.#load(entry, effect);
        break;
      case 'loaded':
        this.#loaded(effect);
        break;
      case 'tellReceived':
        this.#tellReceived(entry, effect);
        break;
      case 'tellCancel':
        void this.#tellCancel(entry.transfer.key, entry.transfer.address);
        break;
      case 'recompute':
        this.#recomputed[effect.reason] += 1;
        break;
      case 'forget':
        this.#forget(entry);
        break;
    }
  }

  #takeSlots(entry: Entry, { firstBlock, count }: EffectOf<'takeSlots'>): void {
    const slots = this.#options.slots.take(count);
    if (slots === null) {
      this.#events.push([entry, { kind: 'noSlots', mayWait: this.#waiting.size < MAX_WAITING }]);
      return;
    }
    this.#events.push([entry, { kind: 'slotsTaken', slots, firstBlock, ticket: freshTicket() }]);
    if (this.#waiting.delete(entry)) this.#offerSlots();
  }

  /** The transfer that has waited longest comes first; when it has its slots, the next one is offered what is left. */
  #offerSlots(): void {
    const [entry] = this.#waiting;
    if (entry !== undefined) this.#events.push([entry, { kind: 'slotsFreed' }]);
  }

  #openBuffer(entry: Entry, { buffer: { ticket, firstBlock, slots } }: EffectOf<'openBuffer'>): void {
    this.#byTicket.set(ticket, entry);
    this.#options.mover.openReceive(ticket, firstBlock, slots.offsets);
  }

  async #closeBuffer(entry: Entry, { ticket }: EffectOf<'closeBuffer'>): Promise<void> {
    this.#byTicket.delete(ticket);
    await this.#options.mover.closeReceive(ticket);
    this.#events.push([entry, { kind: 'bufferClosed', nextTicket: freshTicket() }]);
  }

  async #pull(entry: Entry, { ticket, firstBlock, numBlocks }: EffectOf<'pull'>): Promise<void> {
    const { peers } = this.#options;
    const { key, hash, address } = entry.transfer;
    try {
      const peer = peers.get(address);
      this.#attach(entry, peer);
      const range = { first_block: firstBlock, num_blocks: numBlocks };
      const answer = await peer.request({ type: 'pull', key, hash, ticket: ticketText(ticket), ...range });
      this.#events.push([entry, { kind: 'answered', ticket, answer }]);
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      if (error.code === 'refused') peers.complain(address, error.message);
      this.#events.push([entry, { kind: 'pullFailed', ticket, code: error.code }]);
    }
  }

  #pullLater(entry: Entry, { ticket }: EffectOf<'pullLater'>): void {
    const again = () => this.#events.push([entry, { kind: 'pullAgain', ticket }]);
    setTimeout(again, this.#options.deadlines.unknownRetry);
  }

  async #load(entry: Entry, { transferId, ticket, firstBlock, blocks }: EffectOf<'load'>): Promise<void> {
    const isIntact = await this.#options.mover.load(ticket, firstBlock, Int32Array.from(blocks));
    if (!isIntact) this.#counts.corruptPieces += 1;
    this.#events.push([entry, { kind: 'copied', transferId, isIntact }]);
  }

  #loaded({ transferId, numTokens, numCopied }: EffectOf<'loaded'>): void {
    this.#counts.loadedTokens += numCopied;
    this.#options.applyTransfer({ kind: 'loaded', transferId, numTokens });
  }

  #tellReceived({ transfer, peer }: Entry, { isPushed, location }: EffectOf<'tellReceived'>): void {
    this.#counts[isPushed ? 'pushed' : 'pulled'] += 1;
    this.#counts[location === 'buffer' ? 'viaBuffer' : 'viaPool'] += 1;
    peer?.tell({ type: 'received', key: transfer.key });
  }

  /** Lets P free what it holds, also where nothing has been said to it yet. */
  async #tellCancel(key: string, address: string): Promise<void> {
    try {
      const peer = this.#options.peers.get(address);
      await peer.ready();
      peer.tell({ type: 'cancel', key });
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
    }
  }

  #forget(entry: Entry): void {
    const { key, isClaimed, samples } = entry.transfer;
    if (isClaimed) this.#ended.add(key);
    if (this.#byKey.get(key) === entry) this.#byKey.delete(key);
    for (const { transferId } of samples) this.#byTransferId.delete(transferId);
  }

  #tellAttached(address: string, event: ConsumerEvent): void {
    for (const entry of [...this.#byKey.values()]) {
      if (entry.peer?.address === address) this.#events.push([entry, event]);
    }
  }

  #attach(entry: Entry, peer: Peer | null): void {
    if (entry.peer === peer) return;
    if (entry.peer !== null) entry.peer.numOpen -= 1;
    entry.peer = peer;
    if (peer !== null) peer.numOpen += 1;
  }

  #hasEnded(key: string): boolean {
    return this.#ended.has(key) || this.#ended.has(idOfKey(key)?.id ?? '');
  }

  #refusalOf(
    { hash, numTokens }: TransferDescription,
    known: ConsumerTransfer | undefined,
  ): RecomputeReason | null {
    if (known !== undefined) return known.hash === hash ? null : 'mismatch';
    return this.#options.slots.couldHold(this.#blocksOf(numTokens)) ? null : 'no_room';
  }

  #blocksOf(numTokens: number): number {
    return Math.ceil(numTokens / this.#options.blockSize);
  }
}

function freshTicket(): bigint {
  return randomBytes(8).readBigUInt64LE();
}

/** As messages carry it: 16 hexadecimal digits. */
function ticketText(ticket: bigint): string {
  return ticket.toString(16).padStart(16, '0');
}

function unasked(): Unnumbered<Answer> {
  return { type: 'refused', code: 'unasked', reason: 'nobody waits for this transfer' };
}

/** The same reservation may come twice, after a lost connection. */
function reservedAgain(known: ConsumerTransfer, hash: string): Unnumbered<Answer> {
  if (known.hash !== hash || !isExpected(known)) return unasked();
  const isSame = known.isPushed && known.retries === 0 && known.phase === 'arriving';
  return isSame && known.buffer !== null
    ? { type: 'granted', ticket: ticketText(known.buffer.ticket) }
    : { type: 'full' };
}
