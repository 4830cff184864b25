// The producer's half of KV transfer (P): does the I/O of its transfers, and keeps those for pulls within its memory.
// producer.ts decides everything else.

import type { PairedRequestId } from '../../cluster/request-id.ts';
import type { SendType } from '../../config/kv-transfer-config.ts';
import { type BlockGroups, transferGroups, transferSize } from '../../kv-cache/block-groups.ts';
import type { KvTransferStats, RequestTransfer, SendOutcome, TransferringEngine } from '../connector.ts';
import type { Cut } from './cut.ts';
import type { Deadlines } from './deadlines.ts';
import type { Answer, MessageOf, Notice, Unnumbered } from './messages.ts';
import type { BlockMover } from './native-mover.ts';
import type { Notices } from './notices.ts';
import type { Peer, Peers } from './peers.ts';
import {
  answerToPull,
  newSend,
  type ProducerEffect,
  type ProducerEvent,
  type ProducerTransfer,
  reduceProducer,
  type SendDescription,
} from './producer.ts';
import { type Entry, Transfers } from './transfers.ts';

interface KvProducerOptions {
  readonly mover: BlockMover;
  readonly peers: Peers;
  readonly notices: Notices;
  readonly deadlines: Deadlines;
  readonly engine: TransferringEngine;
  readonly sendType: SendType;
  /** Bytes that are held at most for pulls (GET). */
  readonly holdBytes: number;
  /** Of one block over all its layers. */
  readonly slotBytes: number;
  readonly groups: BlockGroups;
}

interface Send extends Entry {
  transfer: ProducerTransfer;
  /** Resolve when the request can be answered. */
  readonly answers: (() => void)[];
}

export class KvProducer {
  /** Those whose blocks are for D still. */
  readonly transfers: Transfers<Send, ProducerEvent>;
  readonly #options: KvProducerOptions;
  /** By the number of the transfer: those whose blocks cannot be reused yet. */
  readonly #byId = new Map<number, Send>();
  /** Of the transfers that wait for a pull. */
  #numHeldBlocks = 0;
  /** Called when all blocks can be reused. */
  readonly #onIdle: (() => void)[] = [];
  readonly #ended: Record<SendOutcome, number> = { delivered: 0, expired: 0, cancelled: 0, failed: 0 };

  constructor(options: KvProducerOptions) {
    this.#options = options;
    this.transfers = new Transfers(options.peers, (entry, event) => this.#handle(entry, event));
  }

  /** Transfers whose blocks cannot be reused yet. */
  get size(): number {
    return this.#byId.size;
  }

  get stats(): KvTransferStats['send'] {
    const { mover } = this.#options;
    const bytesOver = {
      shm: mover.bytesSentOver('shm'),
      tcp: mover.bytesSentOver('tcp'),
      'cuda-ipc': mover.bytesSentOver('cuda-ipc'),
      nccl: mover.bytesSentOver('nccl'),
    };
    return { ...this.#ended, bytes: mover.bytesSent, bytesOver, holding: this.size };
  }

  /** Resolves when all blocks can be reused. */
  delivered(): Promise<void> {
    if (this.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  /** Null where the blocks of this request are not sent: another one has its key, or they are too many to be held. */
  open(about: SendDescription, numSamples: number): RequestTransfer | null {
    const { transferId, key, numTokens, numBlocks } = about;
    const { groups, mover, sendType } = this.#options;
    if (this.transfers.get(key) !== undefined) return null;
    if (sendType === 'GET' && !this.#makeRoom(numBlocks)) {
      this.transfers.markOver(key);
      return null;
    }
    const entry: Send = { transfer: newSend(about, sendType, performance.now()), peer: null, answers: [] };
    const blockGroups = transferGroups(groups, numTokens);
    mover.openSend(transferId, numBlocks, (kind) => this.transfers.push(entry, { kind }), blockGroups);
    this.#numHeldBlocks += heldBlocks(entry.transfer);
    this.#byId.set(transferId, entry);
    this.transfers.add(entry);
    if (sendType !== 'GET') void this.#reserve(entry);
    const send = { kind: 'send', transferId, numTokens } as const;
    return {
      sequences: Array.from({ length: numSamples }, (_, index) => (index === 0 ? send : null)),
      answerable: () =>
        new Promise((resolve) => {
          entry.answers.push(resolve);
          this.transfers.push(entry, { kind: 'answerWanted' });
        }),
      end: (isComplete) => this.transfers.push(entry, { kind: isComplete ? 'computed' : 'cancelled' }),
    };
  }

  /** D wants the blocks of a transfer. */
  onPull(peer: Peer, message: MessageOf<'pull'>): Unnumbered<Answer> {
    const entry = this.transfers.getFrom(peer, message.key);
    if (entry === null) {
      const state = this.transfers.isOver(message.key) ? 'gone' : 'unknown';
      return { type: 'pulled', state, num_tokens: 0, num_blocks: 0 };
    }
    const answer = answerToPull(entry.transfer, message, this.#numRuns(entry, peer.cut));
    if (answer.state === 'sending' || answer.state === 'computing') {
      this.transfers.pin(entry, peer);
      const grant = { ticket: BigInt(`0x${message.ticket}`), firstBlock: message.first_block };
      this.transfers.push(entry, { kind: 'pulled', grant });
    }
    return answer;
  }

  /** D has all blocks, or does not want them. */
  onNotice(peer: Peer, { type, key }: Notice): void {
    const entry = this.transfers.getFrom(peer, key);
    if (entry !== null) this.transfers.push(entry, { kind: type === 'cancel' ? 'cancelled' : 'received' });
  }

  /** Gives up all transfers of a request of the proxy. */
  cancel(id: PairedRequestId): void {
    this.transfers.pushToRequest(id, { kind: 'cancelled' });
  }

  sweep(): void {
    this.transfers.pushAll({ kind: 'tick' });
  }

  /** Ends all; `release` follows for each when the mover has closed. */
  close(): void {
    this.transfers.pushAll({ kind: 'shutDown' });
  }

  #handle(entry: Send, event: ProducerEvent): void {
    const [transfer, effects] = reduceProducer(entry.transfer, event, performance.now(), this.#options);
    this.#numHeldBlocks += heldBlocks(transfer) - heldBlocks(entry.transfer);
    entry.transfer = transfer;
    for (const effect of effects) this.#run(entry, effect);
  }

  #run(entry: Send, effect: ProducerEffect): void {
    const { transferId, key } = entry.transfer;
    switch (effect.kind) {
      case 'connect':
        void this.#connect(entry, effect.ticket);
        break;
      case 'send':
        this.#send(entry, effect);
        break;
      case 'closeSend':
        this.#options.mover.closeSend(transferId);
        break;
      case 'tellCancel':
        if (entry.peer !== null) this.#options.notices.tell(entry.peer.address, { type: 'cancel', key });
        break;
      case 'answer':
        for (const resolve of entry.answers.splice(0)) resolve();
        break;
      case 'end':
        this.#ended[effect.outcome] += 1;
        this.transfers.remove(entry);
        this.transfers.markOver(key);
        this.transfers.unpin(entry);
        break;
      case 'release':
        this.#byId.delete(transferId);
        this.#options.engine.applyTransfer({ kind: 'release', transferId });
        if (this.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
        break;
    }
  }

  async #reserve(entry: Send): Promise<void> {
    const { key, hash, numTokens } = entry.transfer;
    const answer = await this.transfers.ask(entry, (cut) => {
      const size = { num_tokens: numTokens, num_blocks: this.#numRuns(entry, cut) };
      return { type: 'reserve', key, hash, ...size };
    });
    this.transfers.push(entry, { kind: 'answered', answer: typeof answer === 'string' ? null : answer });
  }

  async #connect(entry: Send, ticket: bigint): Promise<void> {
    const link = (await entry.peer?.link()) ?? null;
    this.transfers.push(entry, { kind: 'linked', ticket, link });
  }

  #send(entry: Send, { link, grant }: Extract<ProducerEffect, { readonly kind: 'send' }>): void {
    const numRuns = this.#numRuns(entry, entry.peer?.cut ?? null);
    this.#options.mover.grant(entry.transfer.transferId, link, grant.ticket, grant.firstBlock, numRuns);
  }

  /** Blocks of the transfer, of the size that messages with its peer mean. */
  #numRuns({ transfer }: Send, cut: Cut | null): number {
    const { groups } = this.#options;
    return transferSize({ ...groups, blockSize: cut?.tokens ?? groups.blockSize }, transfer.numTokens);
  }

  /** GET: gives up the oldest transfers that D is not pulling until the new one fits. */
  #makeRoom(numBlocks: number): boolean {
    const { holdBytes, slotBytes } = this.#options;
    const most = Math.floor(holdBytes / slotBytes);
    if (numBlocks > most) {
      this.#ended.expired += 1;
      return false;
    }
    for (const entry of this.transfers) {
      if (this.#numHeldBlocks + numBlocks <= most) break;
      if (entry.transfer.phase === 'holding') this.transfers.push(entry, { kind: 'evicted' });
    }
    return true;
  }
}

/** Blocks of a transfer that wait for a pull. */
function heldBlocks({ phase, numBlocks }: ProducerTransfer): number {
  return phase === 'holding' ? numBlocks : 0;
}
