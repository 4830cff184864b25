// The consumer's half of KV transfer (D): does the I/O of its transfers, and gives them slots in the order in which they
// came. consumer.ts decides everything else.

import { randomBytes } from 'node:crypto';
import type { PairedRequestId } from '../../cluster/request-id.ts';
import { type BlockGroups, transferGroups, transferSize } from '../../kv-cache/block-groups.ts';
import type {
  KvTransferEvent,
  KvTransferStats,
  RecomputeReason,
  RequestTransfer,
  TransferringEngine,
} from '../connector.ts';
import {
  type ConsumerEffect,
  type ConsumerEvent,
  type ConsumerTransfer,
  isExpected,
  pulledTransfer,
  pushedTransfer,
  reduceConsumer,
  type TransferDescription,
} from './consumer.ts';
import type { Deadlines } from './deadlines.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import type { BlockMover } from './native-mover.ts';
import type { Notices } from './notices.ts';
import type { Peer, Peers } from './peers.ts';
import type { SlotPool } from './slot-pool.ts';
import { type Entry, Transfers } from './transfers.ts';

interface KvConsumerOptions {
  readonly mover: BlockMover;
  readonly peers: Peers;
  readonly notices: Notices;
  readonly slots: SlotPool;
  readonly deadlines: Deadlines;
  readonly engine: TransferringEngine;
  readonly groups: BlockGroups;
}

interface Receipt extends Entry {
  transfer: ConsumerTransfer;
}

type EffectOf<K extends ConsumerEffect['kind']> = Extract<ConsumerEffect, { readonly kind: K }>;

/** Transfers that wait for slots; those beyond are computed here. */
const MAX_WAITING = 1024;

export class KvConsumer {
  /** Those that are under way, received and not claimed, or claimed and not ended. */
  readonly transfers: Transfers<Receipt, ConsumerEvent>;
  readonly #options: KvConsumerOptions;
  /** By the numbers of the sequences. */
  readonly #byTransferId = new Map<number, Receipt>();
  /** In the order in which they get slots. */
  readonly #waiting = new Set<Receipt>();
  readonly #counts = {
    pushed: 0,
    pulled: 0,
    viaBuffer: 0,
    viaPool: 0,
    loadedTokens: 0,
    corruptLayerBlocks: 0,
  };
  readonly #recomputed: Record<RecomputeReason, number> = {
    ...{ peer_gone: 0, unknown: 0, no_room: 0, late: 0, corrupt: 0, mismatch: 0 },
  };

  constructor(options: KvConsumerOptions) {
    this.#options = options;
    this.transfers = new Transfers(options.peers, (entry, event) => this.#handle(entry, event));
  }

  get stats(): KvTransferStats['receive'] {
    const { slots, mover } = this.#options;
    return {
      ...this.#counts,
      recomputed: { ...this.#recomputed },
      bytes: mover.bytesReceived,
      receiveBuffers: slots.numTaken,
      bufferUsedBytes: slots.bufferUsedBytes,
      poolUsedBytes: slots.poolUsedBytes,
    };
  }

  /**
   * A request has come that wants blocks for sequences of these numbers. Null where its prompt is computed here: the
   * blocks can never come, or another request has its key.
   */
  open(about: TransferDescription, transferIds: readonly number[]): RequestTransfer | null {
    const known = this.transfers.get(about.key);
    if (known?.transfer.isClaimed) return null;
    const refusal = this.#refusalOf(about, known?.transfer);
    if (refusal !== null) {
      this.#recomputed[refusal] += 1;
      this.discard(about.key, about.address);
      return null;
    }
    const entry = known ?? { transfer: pulledTransfer(about, performance.now()), peer: null };
    this.transfers.add(entry);
    for (const transferId of transferIds) this.#byTransferId.set(transferId, entry);
    this.transfers.push(entry, { kind: 'claimed', transferIds });
    return {
      sequences: transferIds.map((transferId) => ({ kind: 'load', transferId })),
      answerable: () => Promise.resolve(),
      end: () => this.transfers.push(entry, { kind: 'ended' }),
    };
  }

  /** The prompt of this key is computed here: its blocks are freed, at P too, unless another request has claimed them. */
  discard(key: string, address: string): void {
    this.transfers.markOver(key);
    const known = this.transfers.get(key);
    if (known === undefined) this.#options.notices.tell(address, { type: 'cancel', key });
    else if (!known.transfer.isClaimed) this.transfers.push(known, { kind: 'ended' });
  }

  /** P asks for room. */
  onReserve(peer: Peer, message: MessageOf<'reserve'>): Unnumbered<Answer> {
    const { key, hash, num_tokens, num_blocks } = message;
    if (num_tokens < 1 || num_blocks !== this.#blocksOf(num_tokens, peer.cut?.tokens)) {
      const reason = `${num_blocks} blocks do not hold ${num_tokens} tokens`;
      return { type: 'refused', code: 'malformed', reason };
    }
    const known = this.transfers.get(key)?.transfer;
    if (known !== undefined) return reservedAgain(known, hash);
    if (this.transfers.isOver(key)) return unasked();
    // A transfer that waits for slots comes first.
    const slots = this.#waiting.size === 0 ? this.#options.slots.take(this.#blocksOf(num_tokens)) : null;
    if (slots === null) return { type: 'full' };
    const buffer = { slots, ticket: freshTicket(), firstBlock: 0, isClosing: false };
    const about = { key, hash, address: peer.address, numTokens: num_tokens };
    const entry: Receipt = { transfer: pushedTransfer(about, buffer, performance.now()), peer: null };
    this.transfers.add(entry);
    this.#openBuffer(entry, { kind: 'openBuffer', buffer });
    this.transfers.pin(entry, peer);
    return { type: 'granted', ticket: ticketText(buffer.ticket) };
  }

  /** P will not send. */
  onCancel(peer: Peer, key: string): void {
    const entry = this.transfers.getFrom(peer, key);
    if (entry !== null) this.transfers.push(entry, { kind: 'cancelledByPeer' });
  }

  /** What the engine thread says of a sequence. */
  onTransferEvent(event: KvTransferEvent): void {
    const { transferId } = event;
    const entry = this.#byTransferId.get(transferId);
    if (event.kind === 'loadEnded') {
      if (entry !== undefined) this.transfers.push(entry, { kind: 'unwanted', transferId });
    } else if (entry !== undefined) {
      this.transfers.push(entry, { ...event, kind: 'wanted' });
    } else {
      // The request ended before the engine knew.
      this.#options.engine.applyTransfer({ kind: 'loaded', transferId, numTokens: 0 });
    }
  }

  /** Gives up all transfers of a request of the proxy, also those that P may still announce. */
  cancel(id: PairedRequestId): void {
    this.transfers.markOver(id.id);
    this.transfers.pushToRequest(id, { kind: 'ended' });
  }

  sweep(): void {
    for (const entry of [...this.transfers]) {
      const { buffer } = entry.transfer;
      const progress = buffer?.isClosing === false ? this.#options.mover.progress(buffer.ticket) : 0;
      this.transfers.push(entry, { kind: 'tick', progress });
    }
  }

  /** Ends all; a copy that is under way ends when the mover closes. */
  close(): void {
    this.transfers.pushAll({ kind: 'ended' });
  }

  #handle(entry: Receipt, event: ConsumerEvent): void {
    const [transfer, effects] = reduceConsumer(entry.transfer, event, performance.now(), this.#options);
    entry.transfer = transfer;
    for (const effect of effects) this.#run(entry, effect);
    if (transfer.phase === 'waiting') this.#waiting.add(entry);
    else if (this.#waiting.delete(entry)) this.#offerSlots();
    if (transfer.phase !== 'pulling' && transfer.phase !== 'arriving') this.transfers.unpin(entry);
  }

  #run(entry: Receipt, effect: ConsumerEffect): void {
    const { key, address } = entry.transfer;
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
        this.#options.mover.closeReceive(effect.ticket);
        break;
      case 'pull':
        void this.#pull(entry, effect);
        break;
      case 'pullLater':
        this.#pullLater(entry, effect);
        break;
      case 'load':
        this.#options.mover.load(
          effect.ticket,
          effect.firstBlock,
          Int32Array.from(effect.blocks),
          (isIntact) => {
            this.transfers.push(entry, { kind: 'copied', transferId: effect.transferId, isIntact });
          },
        );
        break;
      case 'loaded':
        this.#counts.loadedTokens += effect.numCopied;
        this.#options.engine.applyTransfer({
          kind: 'loaded',
          transferId: effect.transferId,
          numTokens: effect.numTokens,
        });
        break;
      case 'tellReceived':
        this.#counts[effect.isPushed ? 'pushed' : 'pulled'] += 1;
        this.#counts[effect.location === 'buffer' ? 'viaBuffer' : 'viaPool'] += 1;
        this.#options.notices.tell(address, { type: 'received', key });
        break;
      case 'tellCancel':
        this.#options.notices.tell(address, { type: 'cancel', key });
        break;
      case 'recompute':
        this.#recomputed[effect.reason] += 1;
        break;
      case 'forget':
        this.#forget(entry);
        break;
    }
  }

  #takeSlots(entry: Receipt, { firstBlock, count }: EffectOf<'takeSlots'>): void {
    const [first = entry] = this.#waiting;
    const slots = first === entry ? this.#options.slots.take(count) : null;
    if (slots === null)
      this.transfers.push(entry, { kind: 'noSlots', mayWait: this.#waiting.size < MAX_WAITING });
    else this.transfers.push(entry, { kind: 'slotsTaken', slots, firstBlock, ticket: freshTicket() });
  }

  /** The transfer that has waited longest comes first; when it waits no more, the next one is offered the rest. */
  #offerSlots(): void {
    const [entry] = this.#waiting;
    if (entry !== undefined) this.transfers.push(entry, { kind: 'slotsFreed' });
  }

  #openBuffer(entry: Receipt, { buffer: { ticket, firstBlock, slots } }: EffectOf<'openBuffer'>): void {
    const { mover, groups: ofModel } = this.#options;
    const { numTokens } = entry.transfer;
    const lastTokens = numTokens - (Math.ceil(numTokens / ofModel.blockSize) - 1) * ofModel.blockSize;
    const groups = transferGroups(ofModel, numTokens).subarray(firstBlock);
    mover.openReceive(ticket, { firstBlock, offsets: slots.offsets, lastTokens, groups }, (kind) => {
      if (kind === 'corrupt') this.#counts.corruptLayerBlocks += 1;
      const isClosed = kind === 'receiveClosed';
      this.transfers.push(
        entry,
        isClosed ? { kind: 'bufferClosed', nextTicket: freshTicket() } : { kind, ticket },
      );
    });
  }

  async #pull(entry: Receipt, { ticket, firstBlock }: EffectOf<'pull'>): Promise<void> {
    const { key, hash, numTokens } = entry.transfer;
    const { blockSize } = this.#options.groups;
    const answer = await this.transfers.ask(entry, ({ tokens }) => {
      // Where block sizes differ, blocks are in the order of their tokens.
      const first_block = (firstBlock * blockSize) / tokens;
      const size = { first_block, num_blocks: this.#blocksOf(numTokens, tokens) };
      return { type: 'pull', key, hash, ticket: ticketText(ticket), ...size };
    });
    this.transfers.push(entry, { kind: 'answered', ticket, answer });
  }

  #pullLater(entry: Receipt, { ticket }: EffectOf<'pullLater'>): void {
    const again = () => this.transfers.push(entry, { kind: 'pullAgain', ticket });
    setTimeout(again, this.#options.deadlines.unknownRetry);
  }

  #forget(entry: Receipt): void {
    const { key, isClaimed, samples } = entry.transfer;
    if (isClaimed) this.transfers.markOver(key);
    this.transfers.remove(entry);
    for (const { transferId } of samples) this.#byTransferId.delete(transferId);
  }

  #refusalOf(
    { hash, numTokens }: TransferDescription,
    known: ConsumerTransfer | undefined,
  ): RecomputeReason | null {
    if (known !== undefined) return known.hash === hash ? null : 'mismatch';
    return this.#options.slots.couldHold(this.#blocksOf(numTokens)) ? null : 'no_room';
  }

  /** @param blockSize that messages with a peer mean; left out, that of this instance */
  #blocksOf(numTokens: number, blockSize = this.#options.groups.blockSize): number {
    return transferSize({ ...this.#options.groups, blockSize }, numTokens);
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
