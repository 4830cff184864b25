// P's half of KV transfer: asks D for room, lets the native threads send, holds what D has no room for, and lets go of
// the blocks when D has them or nobody comes. p2p-connector.ts hands it requests, messages and events.

import type { PairedRequestId } from '../../cluster/request-id.ts';
import type { SendType } from '../../config/kv-transfer-config.ts';
import { within } from '../../util/within.ts';
import type { RequestTransfer, TransferOrder } from '../connector.ts';
import type { Deadlines } from './deadlines.ts';
import type { Links } from './links.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import type { NativeMover } from './native-mover.ts';
import { type Peer, PeerError } from './peer.ts';
import type { Peers } from './peers.ts';
import { RecentKeys } from './recent-keys.ts';
import { type Grant, type SendDescription, type SendOutcome, SendTransfer } from './send-transfer.ts';
import { isKeyOf } from './transfer-key.ts';

export interface PrefillSideOptions {
  readonly mover: NativeMover;
  readonly peers: Peers;
  readonly links: Links;
  readonly deadlines: Deadlines;
  readonly order: (order: TransferOrder) => void;
  readonly sendType: SendType;
  /** Bytes that are held at most for pulls (GET). */
  readonly holdBytes: number;
  /** Of one block over all layers. */
  readonly slotBytes: number;
}

export class PrefillSide {
  readonly #options: PrefillSideOptions;
  readonly #byId = new Map<number, SendTransfer>();
  readonly #byKey = new Map<string, SendTransfer>();
  readonly #over = new RecentKeys();
  /** Called when the last transfer has closed. */
  readonly #onIdle: (() => void)[] = [];
  readonly #ended: Record<SendOutcome, number> = { delivered: 0, expired: 0, cancelled: 0, failed: 0 };

  constructor(options: PrefillSideOptions) {
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
    if (this.#byKey.has(about.key)) return null;
    const isPull = this.#options.sendType === 'GET';
    if (isPull && !this.#makeRoom(about.numBlocks)) {
      this.#over.add(about.key);
      return null;
    }
    const transfer = new SendTransfer(about, isPull ? 'holding' : 'reserving');
    this.#options.mover.openSend(about.transferId, about.numBlocks);
    this.#byId.set(about.transferId, transfer);
    this.#byKey.set(about.key, transfer);
    this.#over.delete(about.key);
    if (!isPull) void this.#reserve(transfer);
    const { transferId, numTokens } = about;
    const send = { kind: 'send', transferId, numTokens } as const;
    return {
      sequences: Array.from({ length: numSamples }, (_, index) => (index === 0 ? send : null)),
      answerable: () => this.#answerable(transfer),
      end: (isComplete) => {
        if (isComplete) this.#computed(transfer);
        else this.#finish(transfer, 'cancelled');
      },
    };
  }

  /** D wants the blocks of a transfer. */
  pulled(peer: Peer, message: MessageOf<'pull'>): Unnumbered<Answer> {
    const transfer = this.#of(peer, message.key);
    if (transfer === null) {
      const state = this.#over.has(message.key) ? 'gone' : 'unknown';
      return { type: 'pulled', state, num_tokens: 0, num_blocks: 0 };
    }
    const { hash, numTokens, numBlocks } = transfer.about;
    const answer = { type: 'pulled', num_tokens: numTokens, num_blocks: numBlocks } as const;
    if (message.hash !== hash) return { ...answer, state: 'mismatch' };
    if (message.num_blocks !== numBlocks || message.first_block >= numBlocks)
      return { ...answer, state: 'resized' };
    this.#attach(transfer, peer);
    this.#send(transfer, { ticket: BigInt(`0x${message.ticket}`), firstBlock: message.first_block });
    return { ...answer, state: transfer.isComputed ? 'sending' : 'computing' };
  }

  told(peer: Peer, { type, key }: MessageOf<'received' | 'cancel'>): void {
    const transfer = this.#of(peer, key);
    if (transfer === null) return;
    if (type === 'received') this.#finish(transfer, 'delivered', false);
    // A reservation may have passed D's message on the way: D is told to forget it.
    else this.#finish(transfer, 'cancelled');
  }

  /** The blocks have left. */
  sent(transferId: number): void {
    const transfer = this.#byId.get(transferId);
    if (transfer !== undefined) transfer.lastActivity = Date.now();
  }

  /** A data link is no more: it is made anew once, in case that only the connection has died. */
  linkDown(link: number): void {
    for (const transfer of [...this.#byId.values()]) {
      if (transfer.link !== link || !transfer.state.is('sending')) continue;
      if (transfer.hasRelinked || transfer.grant === null) this.#finish(transfer, 'failed');
      else {
        transfer.hasRelinked = true;
        void this.#link(transfer, transfer.grant);
      }
    }
  }

  /** D is dead. */
  gone(address: string): void {
    for (const transfer of [...this.#byId.values()]) {
      if (transfer.peer?.address === address) this.#finish(transfer, 'failed', false);
    }
  }

  /** D has forgotten what it granted. */
  restarted(address: string): void {
    for (const transfer of [...this.#byId.values()]) {
      const isGranted = transfer.state.is('sending', 'reserved');
      if (isGranted && transfer.about.address === address) this.#finish(transfer, 'failed', false);
    }
  }

  cancel(id: PairedRequestId): void {
    for (const transfer of [...this.#byId.values()]) {
      if (isKeyOf(transfer.about.key, id)) this.#finish(transfer, 'cancelled');
    }
  }

  /** Gives up what nobody has come for, and what does not get away. */
  sweep(now: number): void {
    for (const transfer of [...this.#byId.values()]) {
      const isLate = transfer.isComputed && now - transfer.lastActivity >= this.#options.deadlines.hold;
      if (isLate) this.#finish(transfer, transfer.state.is('holding') ? 'expired' : 'failed');
    }
  }

  /** All at once; `release` follows for each when the mover has closed. */
  close(): void {
    for (const transfer of [...this.#byId.values()]) this.#finish(transfer, 'cancelled', false);
  }

  /** GET: gives up the oldest that nobody is pulling until the new one fits. */
  #makeRoom(numBlocks: number): boolean {
    const { holdBytes, slotBytes } = this.#options;
    const most = Math.floor(holdBytes / slotBytes);
    if (numBlocks > most) {
      this.#ended.expired += 1;
      return false;
    }
    const held = [...this.#byId.values()].filter(({ state }) => state.is('holding'));
    let total = held.reduce((sum, { about }) => sum + about.numBlocks, numBlocks);
    for (const transfer of held) {
      if (total <= most) break;
      total -= transfer.about.numBlocks;
      this.#finish(transfer, 'expired');
    }
    return true;
  }

  async #reserve(transfer: SendTransfer): Promise<void> {
    const { key, address, numTokens, numBlocks, hash } = transfer.about;
    const { peers } = this.#options;
    let answer: Answer;
    try {
      const peer = peers.get(address);
      this.#attach(transfer, peer);
      const size = { num_tokens: numTokens, num_blocks: numBlocks };
      answer = await peer.request({ type: 'reserve', key, hash, ...size });
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      if (error.code === 'refused') peers.complain(address, error.message);
      if (transfer.state.is('reserving')) this.#finish(transfer, 'failed');
      return;
    }
    if (transfer.state.is('reserving')) this.#reserved(transfer, answer);
    // All may be over meanwhile, or D may have pulled: then it has not granted anything.
    else if (answer.type === 'granted') peers.find(address)?.tell({ type: 'cancel', key });
  }

  #reserved(transfer: SendTransfer, answer: Answer): void {
    transfer.lastActivity = Date.now();
    if (answer.type === 'granted') {
      transfer.grant = { ticket: BigInt(`0x${answer.ticket}`), firstBlock: 0 };
      const isNow = this.#options.sendType === 'PUT_ASYNC' || transfer.isComputed;
      if (isNow) this.#send(transfer, transfer.grant);
      else transfer.state.go('reserved');
    } else if (answer.type === 'full') {
      transfer.state.go('holding');
      transfer.settle();
    } else {
      this.#finish(transfer, 'failed');
    }
  }

  #send(transfer: SendTransfer, grant: Grant): void {
    transfer.state.go('sending');
    transfer.grant = grant;
    transfer.hasRelinked = false;
    transfer.lastActivity = Date.now();
    void this.#link(transfer, grant);
  }

  async #link(transfer: SendTransfer, grant: Grant): Promise<void> {
    const { mover, links } = this.#options;
    transfer.link = null;
    let link: number | null = null;
    try {
      if (transfer.peer !== null) link = await links.to(transfer.peer);
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
    }
    // Another pull may have come meanwhile, or the end.
    if (!transfer.state.is('sending') || transfer.grant !== grant) return;
    if (link === null || !mover.isUp(link)) {
      this.#finish(transfer, 'failed');
      return;
    }
    transfer.link = link;
    mover.grant(transfer.about.transferId, link, grant.ticket, grant.firstBlock);
  }

  #computed(transfer: SendTransfer): void {
    if (transfer.isComputed) return;
    transfer.isComputed = true;
    transfer.lastActivity = Date.now();
    if (transfer.state.is('reserved') && transfer.grant !== null) this.#send(transfer, transfer.grant);
  }

  async #answerable(transfer: SendTransfer): Promise<void> {
    this.#computed(transfer);
    if (this.#options.sendType !== 'PUT') return;
    await within(this.#options.deadlines.put, transfer.settled);
  }

  /** @param tells D hears of it, where it is not the one that said so. */
  #finish(transfer: SendTransfer, outcome: SendOutcome, tells = true): void {
    if (transfer.state.is('closing', 'closed')) return;
    transfer.state.go('closing');
    this.#ended[outcome] += 1;
    this.#byKey.delete(transfer.about.key);
    this.#over.add(transfer.about.key);
    if (tells) transfer.peer?.tell({ type: 'cancel', key: transfer.about.key });
    if (transfer.peer !== null) transfer.peer.numOpen -= 1;
    transfer.settle();
    void this.#close(transfer);
  }

  async #close(transfer: SendTransfer): Promise<void> {
    const { transferId } = transfer.about;
    await this.#options.mover.closeSend(transferId);
    transfer.state.go('closed');
    this.#byId.delete(transferId);
    this.#options.order({ kind: 'release', transferId });
    if (this.#byId.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  #attach(transfer: SendTransfer, peer: Peer): void {
    if (transfer.peer === peer) return;
    if (transfer.peer !== null) transfer.peer.numOpen -= 1;
    transfer.peer = peer;
    peer.numOpen += 1;
  }

  /** Only the D that the request id names may ask for a transfer. */
  #of(peer: Peer, key: string): SendTransfer | null {
    const transfer = this.#byKey.get(key);
    return transfer?.about.address === peer.address ? transfer : null;
  }
}
