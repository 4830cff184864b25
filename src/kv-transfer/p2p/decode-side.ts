// D's half of KV transfer: gives P room, sees to it that what a request wants comes, and where nothing comes of it says so
// at once, so that D computes the prompt itself. p2p-connector.ts hands it requests, notices, messages and events;
// receive-areas.ts has the room, pulls.ts asks P, sample-loads.ts has the sequences that want the blocks.

import type { PairedRequestId } from '../../cluster/request-id.ts';
import type { RecomputeReason, RequestTransfer, TransferNotice, TransferOrder } from '../connector.ts';
import type { BlockMover } from './block-mover.ts';
import type { Deadlines } from './deadlines.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import { type Peer, PeerError } from './peer.ts';
import type { Peers } from './peers.ts';
import { Pulls } from './pulls.ts';
import { ReceiveAreas } from './receive-areas.ts';
import type { ReceiveMemory } from './receive-memory.ts';
import { ReceiveStats } from './receive-stats.ts';
import { ReceiveTransfer, ticketText } from './receive-transfer.ts';
import { RecentKeys } from './recent-keys.ts';
import { SampleLoads } from './sample-loads.ts';
import { idOfKey, isKeyOf } from './transfer-key.ts';

export interface DecodeSideOptions {
  readonly mover: BlockMover;
  readonly peers: Peers;
  readonly memory: ReceiveMemory;
  readonly deadlines: Deadlines;
  readonly order: (order: TransferOrder) => void;
  readonly blockSize: number;
}

/** What a request wants: the blocks of the first `numTokens` tokens, for sequences of these numbers. */
export interface Wanted {
  readonly key: string;
  readonly hash: string;
  /** Control address of P. */
  readonly address: string;
  readonly numTokens: number;
  readonly transferIds: readonly number[];
}

/** A transfer that went wrong is asked for once more. */
const MAX_RETRIES = 1;

export class DecodeSide {
  readonly stats = new ReceiveStats();
  readonly #options: DecodeSideOptions;
  readonly #areas: ReceiveAreas;
  readonly #pulls: Pulls;
  readonly #loads: SampleLoads;
  readonly #byKey = new Map<string, ReceiveTransfer>();
  readonly #ended = new RecentKeys();

  constructor(options: DecodeSideOptions) {
    const { mover, peers, memory, deadlines, order, blockSize } = options;
    this.#options = options;
    this.#areas = new ReceiveAreas(mover, memory, () => this.#pulls.roomIsFree());
    this.#pulls = new Pulls({
      ...{ peers, deadlines, blockSize, areas: this.#areas },
      onFailed: (transfer, reason, tells) => this.#fail(transfer, reason, tells),
      onNeedless: (transfer) => this.#end(transfer),
    });
    this.#loads = new SampleLoads({
      ...{ mover, order, blockSize },
      onLoaded: (numTokens) => {
        this.stats.loadedTokens += numTokens;
      },
      onCorrupt: (transfer) => this.#corruptInMemory(transfer),
      onDone: (transfer) => {
        this.#ended.add(transfer.key);
        this.#forget(transfer, transfer.failure === null);
      },
    });
  }

  /** Transfers that are under way, received and not claimed, or claimed and not ended. */
  get size(): number {
    return this.#byKey.size;
  }

  /** Null where the prompt is computed here: it can never come, or another request has its key. */
  open(wanted: Wanted): RequestTransfer | null {
    const known = this.#byKey.get(wanted.key);
    if (known?.isClaimed) return null;
    const refusal = this.#refusalOf(wanted, known);
    if (refusal !== null) {
      this.stats.recomputed[refusal] += 1;
      this.discard(wanted.key, wanted.address);
      return null;
    }
    this.#ended.delete(wanted.key);
    const transfer = known ?? new ReceiveTransfer(wanted, 'pulling');
    transfer.isClaimed = true;
    transfer.claimedAt = Date.now();
    transfer.lastActivity = transfer.claimedAt;
    this.#loads.claim(transfer, wanted.transferIds);
    if (known === undefined) {
      this.#byKey.set(wanted.key, transfer);
      this.#pulls.begin(transfer);
    }
    return {
      sequences: wanted.transferIds.map((transferId) => ({ kind: 'load', transferId })),
      answerable: () => Promise.resolve(),
      end: () => this.#loads.endAll(transfer),
    };
  }

  /** Frees what came for this key and was not claimed, and lets P free it. */
  discard(key: string, address: string): void {
    this.#ended.add(key);
    const known = this.#byKey.get(key);
    if (known !== undefined && !known.isClaimed) this.#forget(known);
    void this.#tellCancel(key, address);
  }

  /** P asks for room. */
  reserved(peer: Peer, message: MessageOf<'reserve'>): Unnumbered<Answer> {
    const { key, hash, num_tokens, num_blocks } = message;
    if (num_tokens < 1 || num_blocks !== this.#blocksOf(num_tokens)) {
      const reason = `${num_blocks} blocks do not hold ${num_tokens} tokens`;
      return { type: 'refused', code: 'malformed', reason };
    }
    const known = this.#byKey.get(key);
    if (known !== undefined) return reservedAgain(known, hash);
    if (this.#hasEnded(key)) return unasked();
    const about = { key, hash, address: peer.address, numTokens: num_tokens };
    const transfer = new ReceiveTransfer(about, 'arriving');
    // Who waits for room comes first.
    const hasRoom = this.#pulls.numWaiting === 0 && this.#areas.open(transfer, 0, num_blocks);
    if (!hasRoom || transfer.open === null) return { type: 'full' };
    this.#byKey.set(key, transfer);
    transfer.attach(peer);
    return { type: 'granted', ticket: ticketText(transfer.open) };
  }

  /** P will not send. */
  cancelled(peer: Peer, key: string): void {
    const transfer = this.#byKey.get(key);
    if (transfer?.address !== peer.address) return;
    if (!transfer.isClaimed) this.#forget(transfer);
    else if (transfer.isExpected) this.#fail(transfer, 'peer_gone', false);
  }

  notice(notice: TransferNotice): void {
    this.#loads.notice(notice);
  }

  received(ticket: bigint): void {
    const transfer = this.#areas.of(ticket);
    if (transfer === null || transfer.open === null || !transfer.state.is('pulling', 'arriving')) return;
    transfer.state.go('received');
    transfer.lastActivity = Date.now();
    const isPushed = transfer.isPushed && transfer.retries === 0;
    this.stats.received(isPushed, transfer.open.area.place);
    transfer.peer?.tell({ type: 'received', key: transfer.key });
    transfer.detach();
    this.#loads.received(transfer);
  }

  corrupt(ticket: bigint): void {
    this.stats.corruptPieces += 1;
    const transfer = this.#areas.of(ticket);
    if (transfer?.state.is('pulling', 'arriving')) this.#again(transfer, 'corrupt');
  }

  /** P is dead: what is here already is of use, nothing more comes. */
  gone(address: string): void {
    for (const transfer of [...this.#byKey.values()]) {
      if (transfer.peer?.address === address && transfer.isExpected) this.#lose(transfer);
    }
  }

  /** P has forgotten what it was sending; what it is being asked for, the new run is asked for. */
  restarted(address: string): void {
    for (const transfer of [...this.#byKey.values()]) {
      if (transfer.peer?.address === address && transfer.state.is('arriving')) this.#lose(transfer);
    }
  }

  /** Also of what P, which may be behind, will still announce. */
  cancel(id: PairedRequestId): void {
    this.#ended.add(id.id);
    for (const transfer of [...this.#byKey.values()]) {
      if (isKeyOf(transfer.key, id)) this.#end(transfer);
    }
  }

  sweep(now: number): void {
    for (const transfer of [...this.#byKey.values()]) {
      if (transfer.state.is('arriving') && this.#areas.hasProgressed(transfer)) transfer.lastActivity = now;
      if (transfer.isClaimed) this.#sweepClaimed(transfer, now);
      else if (now - transfer.lastActivity >= this.#options.deadlines.unclaimed) this.#forget(transfer);
    }
  }

  /** Nothing is waited for any more; what is being loaded ends when the mover closes. */
  close(): void {
    for (const transfer of [...this.#byKey.values()]) this.#end(transfer);
  }

  #hasEnded(key: string): boolean {
    return this.#ended.has(key) || this.#ended.has(idOfKey(key)?.id ?? '');
  }

  #refusalOf(wanted: Wanted, known: ReceiveTransfer | undefined): RecomputeReason | null {
    if (known !== undefined) return known.hash === wanted.hash ? null : 'mismatch';
    return this.#options.memory.couldHold(this.#blocksOf(wanted.numTokens)) ? null : 'no_room';
  }

  /** Something went wrong on the way: everything is asked for once more, under a new ticket. */
  #again(transfer: ReceiveTransfer, reason: RecomputeReason): void {
    if (!transfer.isClaimed) {
      // P has it still, and is asked when the request comes.
      this.#forget(transfer);
      return;
    }
    if (transfer.retries >= MAX_RETRIES && !(reason === 'late' && transfer.isComputing)) {
      this.#fail(transfer, reason);
      return;
    }
    transfer.retries += 1;
    transfer.retryReason = reason;
    void this.#pulls.beginAgain(transfer);
  }

  #corruptInMemory(transfer: ReceiveTransfer): void {
    this.stats.corruptPieces += 1;
    // P has let go of it when it had arrived intact: it cannot be asked again.
    if (transfer.failure === null) this.#fail(transfer, 'corrupt', false);
  }

  #lose(transfer: ReceiveTransfer): void {
    if (transfer.isClaimed) this.#fail(transfer, 'peer_gone', false);
    else this.#forget(transfer);
  }

  /** The prompt is computed here. @param tells P hears of it, where it is not the one that said so. */
  #fail(transfer: ReceiveTransfer, reason: RecomputeReason, tells = true): void {
    transfer.failure = reason;
    this.stats.recomputed[reason] += 1;
    this.#over(transfer, tells);
    this.#loads.failed(transfer);
  }

  /** The request is over, or given up. */
  #end(transfer: ReceiveTransfer): void {
    if (transfer.isClaimed) this.#loads.endAll(transfer);
    else this.#forget(transfer, true);
  }

  /** Drops what no request has claimed, or what all its sequences have had. */
  #forget(transfer: ReceiveTransfer, tells = false): void {
    this.#over(transfer, tells);
    if (this.#byKey.get(transfer.key) === transfer) this.#byKey.delete(transfer.key);
  }

  /** Nothing more is expected. */
  #over(transfer: ReceiveTransfer, tells: boolean): void {
    if (transfer.isExpected && tells) void this.#tellCancel(transfer.key, transfer.address);
    if (!transfer.state.is('over')) transfer.state.go('over');
    this.#pulls.end(transfer);
    transfer.detach();
    // What is being copied out of the area is not to be overwritten: the last sequence comes by here again.
    if (transfer.samples.every(({ state }) => state !== 'loading')) void this.#areas.release(transfer);
  }

  #sweepClaimed(transfer: ReceiveTransfer, now: number): void {
    const { room, load, stall } = this.#options.deadlines;
    if (!transfer.isExpected) return;
    const isStalled = transfer.state.is('arriving') && now - transfer.lastActivity >= stall;
    if (transfer.state.is('waiting') && now - transfer.waitingSince >= room) this.#fail(transfer, 'no_room');
    else if (now - transfer.claimedAt >= load) this.#fail(transfer, 'late');
    else if (isStalled) this.#again(transfer, 'late');
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

  #blocksOf(numTokens: number): number {
    return Math.ceil(numTokens / this.#options.blockSize);
  }
}

function unasked(): Unnumbered<Answer> {
  return { type: 'refused', code: 'unasked', reason: 'nobody waits for this transfer' };
}

/** The same reservation may come twice, after a lost connection. */
function reservedAgain(known: ReceiveTransfer, hash: string): Unnumbered<Answer> {
  if (known.failure !== null || known.hash !== hash || known.state.is('received', 'over')) {
    return unasked();
  }
  const isSame = known.isPushed && known.retries === 0 && known.state.is('arriving');
  return isSame && known.open !== null
    ? { type: 'granted', ticket: ticketText(known.open) }
    : { type: 'full' };
}
