// The producer's half of KV transfer (P): holds all transfers by their keys, brings each event to its state machine and
// does what comes of it. What a transfer does when is decided in producer.ts.

import type { PairedRequestId } from '../../cluster/request-id.ts';
import type { SendType } from '../../config/kv-transfer-config.ts';
import type { KvTransferCommand, RequestTransfer } from '../connector.ts';
import type { Deadlines } from './deadlines.ts';
import { EventQueue } from './event-queue.ts';
import type { Links } from './links.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import type { NativeMover } from './native-mover.ts';
import { type Peer, PeerError } from './peer.ts';
import type { Peers } from './peers.ts';
import { answerToPull, reduceProducer } from './producer.ts';
import {
  newSend,
  type ProducerEffect,
  type ProducerEvent,
  type ProducerTransfer,
  type SendDescription,
  type SendOutcome,
} from './producer-state.ts';
import { RecentKeys } from './recent-keys.ts';
import { isKeyOf } from './transfer-key.ts';

export interface KvProducerOptions {
  readonly mover: NativeMover;
  readonly peers: Peers;
  readonly links: Links;
  readonly deadlines: Deadlines;
  readonly applyTransfer: (command: KvTransferCommand) => void;
  readonly sendType: SendType;
  /** Bytes that are held at most for pulls (GET). */
  readonly holdBytes: number;
  /** Of one block over all layers. */
  readonly slotBytes: number;
}

interface Entry {
  transfer: ProducerTransfer;
  /** D, from the first message about this transfer on; the connection to it stays until the transfer ends. */
  peer: Peer | null;
  /** Resolve when the request can be answered. */
  readonly answers: (() => void)[];
}

export class KvProducer {
  readonly #options: KvProducerOptions;
  readonly #byId = new Map<number, Entry>();
  readonly #byKey = new Map<string, Entry>();
  readonly #over = new RecentKeys();
  readonly #events = new EventQueue<readonly [Entry, ProducerEvent]>((next) => this.#handle(...next));
  /** Called when the last transfer has closed. */
  readonly #onIdle: (() => void)[] = [];
  readonly #ended: Record<SendOutcome, number> = { delivered: 0, expired: 0, cancelled: 0, failed: 0 };

  constructor(options: KvProducerOptions) {
    this.#options = options;
  }

  /** Transfers whose blocks cannot be reused yet. */
  get size(): number {
    return this.#byId.size;
  }

  get ended(): Readonly<Record<SendOutcome, number>> {
    return this.#ended;
  }

  /** Resolves when all blocks can be reused. */
  delivered(): Promise<void> {
    if (this.#byId.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  /** Null where the blocks of this request are not sent: another one has its key, or they are too many to be held. */
  open(about: SendDescription, numSamples: number): RequestTransfer | null {
    const { transferId, key, numTokens, numBlocks } = about;
    const { mover, sendType } = this.#options;
    if (this.#byKey.has(key)) return null;
    if (sendType === 'GET' && !this.#makeRoom(numBlocks)) {
      this.#over.add(key);
      return null;
    }
    const entry: Entry = { transfer: newSend(about, sendType, Date.now()), peer: null, answers: [] };
    mover.openSend(transferId, numBlocks);
    this.#byId.set(transferId, entry);
    this.#byKey.set(key, entry);
    this.#over.delete(key);
    if (sendType !== 'GET') void this.#reserve(entry);
    const send = { kind: 'send', transferId, numTokens } as const;
    return {
      sequences: Array.from({ length: numSamples }, (_, index) => (index === 0 ? send : null)),
      answerable: () =>
        new Promise((resolve) => {
          entry.answers.push(resolve);
          this.#events.push([entry, { kind: 'answerWanted' }]);
        }),
      end: (isComplete) => this.#events.push([entry, { kind: isComplete ? 'computed' : 'cancelled' }]),
    };
  }

  /** D wants the blocks of a transfer. */
  pulled(peer: Peer, message: MessageOf<'pull'>): Unnumbered<Answer> {
    const entry = this.#of(peer, message.key);
    if (entry === null) {
      const state = this.#over.has(message.key) ? 'gone' : 'unknown';
      return { type: 'pulled', state, num_tokens: 0, num_blocks: 0 };
    }
    const answer = answerToPull(entry.transfer, message);
    if (answer.state === 'sending' || answer.state === 'computing') {
      this.#attach(entry, peer);
      const grant = { ticket: BigInt(`0x${message.ticket}`), firstBlock: message.first_block };
      this.#events.push([entry, { kind: 'pulled', grant }]);
    }
    return answer;
  }

  /** D has all blocks. */
  received(peer: Peer, key: string): void {
    const entry = this.#of(peer, key);
    if (entry !== null) this.#events.push([entry, { kind: 'received' }]);
  }

  /** D does not want the blocks. */
  cancelled(peer: Peer, key: string): void {
    const entry = this.#of(peer, key);
    if (entry !== null) this.#events.push([entry, { kind: 'cancelled' }]);
  }

  /** The blocks have left. */
  sent(transferId: number): void {
    const entry = this.#byId.get(transferId);
    if (entry !== undefined) this.#events.push([entry, { kind: 'sent' }]);
  }

  linkDown(link: number): void {
    this.#tellAll({ kind: 'linkDown', link }, () => true);
  }

  /** D is dead. */
  gone(address: string): void {
    this.#tellAll({ kind: 'peerGone' }, ({ peer }) => peer?.address === address);
  }

  restarted(address: string): void {
    this.#tellAll({ kind: 'peerRestarted' }, ({ peer }) => peer?.address === address);
  }

  /** Gives up all transfers of a request of the proxy. */
  cancel(id: PairedRequestId): void {
    this.#tellAll({ kind: 'cancelled' }, ({ transfer }) => isKeyOf(transfer.key, id));
  }

  sweep(): void {
    this.#tellAll({ kind: 'tick' }, () => true);
  }

  /** All at once; `release` follows for each when the mover has closed. */
  close(): void {
    this.#tellAll({ kind: 'shutDown' }, () => true);
  }

  #tellAll(event: ProducerEvent, concerns: (entry: Entry) => boolean): void {
    for (const entry of [...this.#byId.values()]) if (concerns(entry)) this.#events.push([entry, event]);
  }

  #handle(entry: Entry, event: ProducerEvent): void {
    const [transfer, effects] = reduceProducer(entry.transfer, event, Date.now(), this.#options);
    entry.transfer = transfer;
    for (const effect of effects) this.#run(entry, effect);
  }

  #run(entry: Entry, effect: ProducerEffect): void {
    const { transferId, key } = entry.transfer;
    switch (effect.kind) {
      case 'connect':
        void this.#connect(entry, effect.ticket);
        break;
      case 'send':
        this.#options.mover.grant(transferId, effect.link, effect.grant.ticket, effect.grant.firstBlock);
        break;
      case 'closeSend':
        void this.#closeSend(entry);
        break;
      case 'tellCancel':
        entry.peer?.tell({ type: 'cancel', key });
        break;
      case 'answer':
        for (const resolve of entry.answers.splice(0)) resolve();
        break;
      case 'end':
        this.#end(entry, effect.outcome);
        break;
      case 'release':
        this.#release(entry);
        break;
    }
  }

  async #reserve(entry: Entry): Promise<void> {
    const { key, address, numTokens, numBlocks, hash } = entry.transfer;
    const { peers } = this.#options;
    try {
      const peer = peers.get(address);
      this.#attach(entry, peer);
      const size = { num_tokens: numTokens, num_blocks: numBlocks };
      const answer = await peer.request({ type: 'reserve', key, hash, ...size });
      this.#events.push([entry, { kind: 'answered', answer }]);
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      if (error.code === 'refused') peers.complain(address, error.message);
      this.#events.push([entry, { kind: 'reserveFailed' }]);
    }
  }

  async #connect(entry: Entry, ticket: bigint): Promise<void> {
    const { mover, links } = this.#options;
    const link = entry.peer === null ? null : await links.to(entry.peer);
    const isUp = link !== null && mover.isUp(link);
    this.#events.push([entry, { kind: 'linked', ticket, link: isUp ? link : null }]);
  }

  async #closeSend(entry: Entry): Promise<void> {
    await this.#options.mover.closeSend(entry.transfer.transferId);
    this.#events.push([entry, { kind: 'sendClosed' }]);
  }

  #end({ transfer, peer }: Entry, outcome: SendOutcome): void {
    this.#ended[outcome] += 1;
    this.#byKey.delete(transfer.key);
    this.#over.add(transfer.key);
    if (peer !== null) peer.numOpen -= 1;
  }

  #release({ transfer: { transferId } }: Entry): void {
    this.#byId.delete(transferId);
    this.#options.applyTransfer({ kind: 'release', transferId });
    if (this.#byId.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** GET: gives up the oldest transfers that D is not pulling until the new one fits. */
  #makeRoom(numBlocks: number): boolean {
    const { holdBytes, slotBytes } = this.#options;
    const most = Math.floor(holdBytes / slotBytes);
    if (numBlocks > most) {
      this.#ended.expired += 1;
      return false;
    }
    const held = [...this.#byKey.values()].filter(({ transfer }) => transfer.phase === 'holding');
    let total = held.reduce((sum, { transfer }) => sum + transfer.numBlocks, numBlocks);
    for (const entry of held) {
      if (total <= most) break;
      total -= entry.transfer.numBlocks;
      this.#events.push([entry, { kind: 'evicted' }]);
    }
    return true;
  }

  #attach(entry: Entry, peer: Peer): void {
    if (entry.peer === peer) return;
    if (entry.peer !== null) entry.peer.numOpen -= 1;
    entry.peer = peer;
    peer.numOpen += 1;
  }

  /** Only the D that the request id names may ask for a transfer. */
  #of(peer: Peer, key: string): Entry | null {
    const entry = this.#byKey.get(key);
    return entry?.transfer.address === peer.address ? entry : null;
  }
}
