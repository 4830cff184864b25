// D's half of KV transfer: gives P room, asks P for what did not come by itself, lets the native threads copy received
// blocks to where a sequence wants them, and where nothing comes of it says so at once, so that D computes the prompt
// itself. p2p-connector.ts hands it requests, notices, messages and events.

import { randomBytes } from 'node:crypto';
import type { RecomputeReason, RequestTransfer, TransferNotice, TransferOrder } from '../connector.ts';
import type { BlockMover } from './block-mover.ts';
import type { Deadlines } from './deadlines.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import { type Peer, PeerError } from './peer.ts';
import type { Peers } from './peers.ts';
import type { ReceiveMemory } from './receive-memory.ts';
import { ReceiveStats } from './receive-stats.ts';
import { type OpenArea, ReceiveTransfer, type Sample } from './receive-transfer.ts';

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

/** Requests that wait for room; those beyond are computed here. */
const MAX_WAITING = 1024;
/** A transfer that went wrong is asked for once more. */
const MAX_RETRIES = 1;

export class DecodeSide {
  readonly stats = new ReceiveStats();
  readonly #options: DecodeSideOptions;
  readonly #byKey = new Map<string, ReceiveTransfer>();
  readonly #byTicket = new Map<bigint, ReceiveTransfer>();
  readonly #bySample = new Map<number, { readonly transfer: ReceiveTransfer; readonly sample: Sample }>();
  readonly #waiting = new Set<ReceiveTransfer>();

  constructor(options: DecodeSideOptions) {
    this.#options = options;
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
    const transfer = known ?? new ReceiveTransfer(wanted, 'pulling');
    this.#claim(transfer, wanted.transferIds);
    if (known === undefined) {
      this.#byKey.set(wanted.key, transfer);
      this.#pull(transfer);
    }
    return {
      sequences: wanted.transferIds.map((transferId) => ({ kind: 'load', transferId })),
      answerable: () => Promise.resolve(),
      end: () => this.#end(transfer),
    };
  }

  /** Frees what came for this key and was not claimed, and lets P free it. */
  discard(key: string, address: string): void {
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
    if (known !== undefined) return this.#reservedAgain(known, hash);
    // Who waits for room comes first.
    const area = this.#waiting.size > 0 ? null : this.#options.memory.take(num_blocks);
    if (area === null) return { type: 'full' };
    const about = { key, hash, address: peer.address, numTokens: num_tokens };
    const transfer = new ReceiveTransfer(about, 'arriving');
    this.#byKey.set(key, transfer);
    this.#attach(transfer, peer);
    const { ticket } = this.#openArea(transfer, { area, ticket: newTicket(), firstBlock: 0 });
    return { type: 'granted', ticket: hexOf(ticket) };
  }

  /** P will not send. */
  cancelled(peer: Peer, key: string): void {
    const transfer = this.#byKey.get(key);
    if (transfer?.address !== peer.address) return;
    if (!transfer.isClaimed) this.#forget(transfer);
    else if (transfer.state.is('waiting', 'pulling', 'arriving')) this.#fail(transfer, 'peer_gone', false);
  }

  notice(notice: TransferNotice): void {
    const known = this.#bySample.get(notice.transferId);
    if (notice.kind === 'loadEnded') {
      if (known !== undefined) this.#sampleEnded(known.transfer, known.sample);
      return;
    }
    if (known === undefined || known.sample.state !== 'idle') {
      this.#loaded(notice.transferId, 0);
      return;
    }
    const { transfer, sample } = known;
    sample.state = 'wanted';
    sample.firstBlock = notice.firstBlock;
    sample.blocks = notice.blocks;
    if (transfer.failure !== null) this.#sampleDone(transfer, sample, 0);
    else if (transfer.state.is('received')) void this.#load(transfer, sample);
  }

  received(ticket: bigint): void {
    const transfer = this.#byTicket.get(ticket);
    if (transfer?.open?.ticket !== ticket || !transfer.state.is('pulling', 'arriving')) return;
    transfer.state.go('received');
    transfer.lastActivity = Date.now();
    const isPushed = transfer.isPushed && transfer.retries === 0;
    this.stats.received(isPushed, transfer.open.area.place);
    transfer.peer?.tell({ type: 'received', key: transfer.key });
    this.#detach(transfer);
    for (const sample of transfer.samples) {
      if (sample.state === 'wanted') void this.#load(transfer, sample);
    }
  }

  corrupt(ticket: bigint): void {
    this.stats.corruptPieces += 1;
    const transfer = this.#byTicket.get(ticket);
    if (transfer?.open?.ticket === ticket && transfer.state.is('pulling', 'arriving')) {
      this.#again(transfer, 'corrupt');
    }
  }

  /** P is dead: what is here already is of use, nothing more comes. */
  gone(address: string): void {
    for (const transfer of [...this.#byKey.values()]) {
      if (transfer.peer?.address === address) this.#lose(transfer);
    }
  }

  /** P has forgotten what it was sending; what it is being asked for, the new run is asked for. */
  restarted(address: string): void {
    for (const transfer of [...this.#byKey.values()]) {
      if (transfer.peer?.address === address && transfer.state.is('arriving')) this.#lose(transfer);
    }
  }

  cancel(isMeant: (key: string) => boolean): void {
    for (const transfer of [...this.#byKey.values()]) {
      if (isMeant(transfer.key)) this.#end(transfer);
    }
  }

  sweep(now: number): void {
    for (const transfer of [...this.#byKey.values()]) {
      if (transfer.isClaimed) this.#sweepClaimed(transfer, now);
      else this.#sweepUnclaimed(transfer, now);
    }
  }

  /** Nothing is waited for any more; what is being loaded ends when the mover closes. */
  close(): void {
    for (const transfer of [...this.#byKey.values()]) this.#end(transfer);
  }

  #refusalOf(wanted: Wanted, known: ReceiveTransfer | undefined): RecomputeReason | null {
    if (known !== undefined) return known.hash === wanted.hash ? null : 'mismatch';
    return this.#options.memory.couldHold(this.#blocksOf(wanted.numTokens)) ? null : 'no_room';
  }

  #claim(transfer: ReceiveTransfer, transferIds: readonly number[]): void {
    transfer.isClaimed = true;
    transfer.claimedAt = Date.now();
    transfer.lastActivity = transfer.claimedAt;
    transfer.samples = transferIds.map((transferId) => ({
      transferId,
      state: 'idle',
      firstBlock: 0,
      blocks: [],
    }));
    for (const sample of transfer.samples) this.#bySample.set(sample.transferId, { transfer, sample });
  }

  /** The same reservation may come twice, after a lost connection. */
  #reservedAgain(known: ReceiveTransfer, hash: string): Unnumbered<Answer> {
    if (known.failure !== null || known.hash !== hash || known.state.is('received', 'over')) {
      return { type: 'refused', code: 'unasked', reason: 'nobody waits for this transfer' };
    }
    const isSame = known.isPushed && known.retries === 0 && known.state.is('arriving');
    return isSame && known.open !== null
      ? { type: 'granted', ticket: hexOf(known.open.ticket) }
      : { type: 'full' };
  }

  #openArea(transfer: ReceiveTransfer, open: OpenArea): OpenArea {
    transfer.open = open;
    transfer.pieces = 0;
    transfer.lastActivity = Date.now();
    this.#byTicket.set(open.ticket, transfer);
    this.#options.mover.openReceive(open.ticket, open.firstBlock, open.area.offsets);
    return open;
  }

  /** Asks P for the blocks, into a new area where it has none; waits where there is no room. */
  #pull(transfer: ReceiveTransfer): void {
    if (transfer.open === null) {
      const firstBlock = firstMissing(transfer);
      const numBlocks = this.#blocksOf(transfer.numTokens) - firstBlock;
      if (numBlocks <= 0) {
        this.#end(transfer);
        return;
      }
      const area = this.#options.memory.take(numBlocks);
      if (area === null) {
        this.#wait(transfer);
        return;
      }
      this.#openArea(transfer, { area, ticket: newTicket(), firstBlock });
    }
    this.#waiting.delete(transfer);
    transfer.state.go('pulling');
    void this.#ask(transfer);
  }

  #wait(transfer: ReceiveTransfer): void {
    if (transfer.state.is('waiting')) return;
    if (this.#waiting.size >= MAX_WAITING) {
      this.#fail(transfer, 'no_room');
      return;
    }
    transfer.state.go('waiting');
    transfer.waitingSince = Date.now();
    this.#waiting.add(transfer);
  }

  async #ask(transfer: ReceiveTransfer): Promise<void> {
    const { open } = transfer;
    if (open === null) return;
    let answer: Answer;
    try {
      const peer = this.#options.peers.get(transfer.address);
      this.#attach(transfer, peer);
      answer = await peer.request({
        type: 'pull',
        key: transfer.key,
        ticket: hexOf(open.ticket),
        first_block: open.firstBlock,
        num_blocks: this.#blocksOf(transfer.numTokens),
        hash: transfer.hash,
      });
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      if (error.code === 'refused') this.#options.peers.complain(transfer.address, error.message);
      if (isAsking(transfer, open))
        this.#fail(transfer, error.code === 'gone' ? 'peer_gone' : 'mismatch', false);
      return;
    }
    // The blocks may be here before the answer is, or all may be over.
    if (isAsking(transfer, open)) this.#answered(transfer, answer);
  }

  #answered(transfer: ReceiveTransfer, answer: Answer): void {
    if (answer.type !== 'pulled' || answer.state === 'mismatch') {
      this.#fail(transfer, 'mismatch');
    } else if (answer.state === 'unknown') {
      this.#unknown(transfer);
    } else if (answer.state === 'resized') {
      this.#resized(transfer, answer.num_tokens);
    } else {
      transfer.isComputing = answer.state === 'computing';
      transfer.numTokens = Math.min(transfer.numTokens, answer.num_tokens);
      transfer.state.go('arriving');
      transfer.lastActivity = Date.now();
    }
  }

  /** Another proxy may call D before P: P is asked for a while. */
  #unknown(transfer: ReceiveTransfer): void {
    const { unknown, unknownRetry } = this.#options.deadlines;
    const { open } = transfer;
    if (transfer.retries > 0 || Date.now() - transfer.claimedAt >= unknown) {
      this.#fail(transfer, transfer.retryReason ?? 'unknown', false);
      return;
    }
    setTimeout(() => {
      if (open !== null && isAsking(transfer, open)) void this.#ask(transfer);
    }, unknownRetry);
  }

  /** P has fewer blocks than this prompt has: what there is, is of use. */
  #resized(transfer: ReceiveTransfer, numTokens: number): void {
    if (numTokens < 1 || numTokens >= transfer.numTokens) {
      this.#fail(transfer, 'mismatch');
      return;
    }
    transfer.numTokens = numTokens;
    this.#releaseArea(transfer);
    this.#pull(transfer);
  }

  /** Something went wrong on the way: everything is asked for once more, under a new ticket. */
  #again(transfer: ReceiveTransfer, reason: RecomputeReason): void {
    const { open } = transfer;
    if (!transfer.isClaimed || open === null) {
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
    transfer.state.go('pulling');
    transfer.lastActivity = Date.now();
    void this.#reopen(transfer, open);
  }

  async #reopen(transfer: ReceiveTransfer, { area, ticket, firstBlock }: OpenArea): Promise<void> {
    transfer.open = null;
    this.#byTicket.delete(ticket);
    await this.#options.mover.closeReceive(ticket);
    if (transfer.state.is('pulling') && transfer.open === null) {
      this.#openArea(transfer, { area, ticket: newTicket(), firstBlock });
      void this.#ask(transfer);
    } else {
      this.#giveBack(area);
    }
  }

  async #load(transfer: ReceiveTransfer, sample: Sample): Promise<void> {
    const { open } = transfer;
    const numBlocks = this.#blocksOf(transfer.numTokens);
    const isPossible =
      open !== null && sample.firstBlock >= open.firstBlock && sample.blocks.length >= numBlocks;
    if (!isPossible || sample.firstBlock >= numBlocks) {
      this.#sampleDone(transfer, sample, sample.firstBlock >= numBlocks ? transfer.numTokens : 0);
      return;
    }
    sample.state = 'loading';
    const blocks = Int32Array.from(sample.blocks.slice(sample.firstBlock, numBlocks));
    const isIntact = await this.#options.mover.load(open.ticket, sample.firstBlock, blocks);
    if (isIntact) {
      this.stats.loadedTokens += transfer.numTokens - sample.firstBlock * this.#options.blockSize;
    } else {
      this.stats.corruptPieces += 1;
      // P has let go of it when it had arrived intact.
      if (transfer.failure === null) this.#fail(transfer, 'corrupt', false);
    }
    this.#sampleDone(transfer, sample, isIntact ? transfer.numTokens : 0);
  }

  /** The prompt is computed here. */
  #fail(transfer: ReceiveTransfer, reason: RecomputeReason, tells = true): void {
    transfer.failure = reason;
    this.stats.recomputed[reason] += 1;
    this.#over(transfer, tells);
    for (const sample of [...transfer.samples]) {
      if (sample.state === 'wanted') this.#sampleDone(transfer, sample, 0);
    }
  }

  #lose(transfer: ReceiveTransfer): void {
    if (!transfer.state.is('waiting', 'pulling', 'arriving')) return;
    if (transfer.isClaimed) this.#fail(transfer, 'peer_gone', false);
    else this.#forget(transfer);
  }

  /** Nothing more is expected; the area is free when nothing reads it any more. */
  #over(transfer: ReceiveTransfer, tells: boolean): void {
    const isMissing = !transfer.state.is('received', 'over');
    if (!transfer.state.is('over')) transfer.state.go('over');
    this.#waiting.delete(transfer);
    if (isMissing && tells) void this.#tellCancel(transfer.key, transfer.address);
    this.#detach(transfer);
    this.#releaseArea(transfer);
  }

  /** Drops what no request has claimed, or what all its sequences have had. */
  #forget(transfer: ReceiveTransfer, tells = false): void {
    this.#over(transfer, tells);
    if (this.#byKey.get(transfer.key) === transfer) this.#byKey.delete(transfer.key);
  }

  /** The request is over, or given up. */
  #end(transfer: ReceiveTransfer): void {
    if (!transfer.isClaimed) this.#forget(transfer, true);
    for (const sample of [...transfer.samples]) this.#sampleEnded(transfer, sample);
  }

  #sampleEnded(transfer: ReceiveTransfer, sample: Sample): void {
    if (sample.state === 'wanted') this.#sampleDone(transfer, sample, 0);
    else if (sample.state === 'idle') this.#sampleGone(transfer, sample);
  }

  /** Answers the one `load` of a sequence. */
  #sampleDone(transfer: ReceiveTransfer, sample: Sample, numTokens: number): void {
    this.#loaded(sample.transferId, numTokens);
    this.#sampleGone(transfer, sample);
  }

  #sampleGone(transfer: ReceiveTransfer, sample: Sample): void {
    sample.state = 'done';
    this.#bySample.delete(sample.transferId);
    if (transfer.samples.every(({ state }) => state === 'done'))
      this.#forget(transfer, transfer.failure === null);
  }

  #loaded(transferId: number, numTokens: number): void {
    this.#options.order({ kind: 'loaded', transferId, numTokens });
  }

  #releaseArea(transfer: ReceiveTransfer): void {
    const { open } = transfer;
    // What is being copied out of the area is not to be overwritten.
    if (open === null || transfer.samples.some(({ state }) => state === 'loading')) return;
    transfer.open = null;
    this.#byTicket.delete(open.ticket);
    void this.#options.mover.closeReceive(open.ticket).then(() => this.#giveBack(open.area));
  }

  #giveBack(area: OpenArea['area']): void {
    this.#options.memory.give(area);
    for (const transfer of [...this.#waiting]) {
      this.#pull(transfer);
      if (transfer.state.is('waiting')) break;
    }
  }

  #sweepClaimed(transfer: ReceiveTransfer, now: number): void {
    const { room, load, stall } = this.#options.deadlines;
    if (!transfer.state.is('waiting', 'pulling', 'arriving')) return;
    if (transfer.state.is('waiting') && now - transfer.waitingSince >= room) this.#fail(transfer, 'no_room');
    else if (now - transfer.claimedAt >= load) this.#fail(transfer, 'late');
    else if (transfer.state.is('arriving')) {
      this.#watchProgress(transfer, now);
      if (now - transfer.lastActivity >= stall) this.#again(transfer, 'late');
    }
  }

  #sweepUnclaimed(transfer: ReceiveTransfer, now: number): void {
    if (transfer.state.is('arriving')) this.#watchProgress(transfer, now);
    if (now - transfer.lastActivity >= this.#options.deadlines.unclaimed) this.#forget(transfer);
  }

  #watchProgress(transfer: ReceiveTransfer, now: number): void {
    const pieces = transfer.open === null ? 0 : this.#options.mover.progress(transfer.open.ticket);
    if (pieces !== transfer.pieces) transfer.lastActivity = now;
    transfer.pieces = pieces;
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

  #attach(transfer: ReceiveTransfer, peer: Peer): void {
    if (transfer.peer === peer) return;
    this.#detach(transfer);
    transfer.peer = peer;
    peer.numOpen += 1;
  }

  #detach(transfer: ReceiveTransfer): void {
    if (transfer.peer !== null) transfer.peer.numOpen -= 1;
    transfer.peer = null;
  }

  #blocksOf(numTokens: number): number {
    return Math.ceil(numTokens / this.#options.blockSize);
  }
}

/** Whether the answer to what was asked for this area still matters. */
function isAsking(transfer: ReceiveTransfer, open: OpenArea): boolean {
  return transfer.state.is('pulling') && transfer.open === open;
}

/** The first block that some sequence lacks; the very first where not all have said so yet. */
function firstMissing({ samples }: ReceiveTransfer): number {
  const isKnown = samples.every(({ state }) => state === 'wanted' || state === 'done');
  const wanted = samples.filter(({ state }) => state === 'wanted');
  return isKnown && wanted.length > 0 ? Math.min(...wanted.map(({ firstBlock }) => firstBlock)) : 0;
}

function newTicket(): bigint {
  return randomBytes(8).readBigUInt64LE();
}

function hexOf(ticket: bigint): string {
  return ticket.toString(16).padStart(16, '0');
}
