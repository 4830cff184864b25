// The sequences at D that want received blocks: each `load` of the engine gets its one `loaded`, when the blocks are
// copied, or when it is sure that nothing will write into them. decode-side.ts says what has come and what has failed.

import type { TransferNotice, TransferOrder } from '../connector.ts';
import type { BlockMover } from './block-mover.ts';
import type { ReceiveTransfer, Sample } from './receive-transfer.ts';

export interface SampleLoadsOptions {
  readonly mover: BlockMover;
  readonly order: (order: TransferOrder) => void;
  readonly blockSize: number;
  /** Tokens that were copied for one sequence. */
  readonly onLoaded: (numTokens: number) => void;
  /** What was received is no longer what was sent. */
  readonly onCorrupt: (transfer: ReceiveTransfer) => void;
  /** No sequence of the transfer wants anything any more. */
  readonly onDone: (transfer: ReceiveTransfer) => void;
}

interface Claim {
  readonly transfer: ReceiveTransfer;
  readonly sample: Sample;
}

export class SampleLoads {
  readonly #options: SampleLoadsOptions;
  readonly #byId = new Map<number, Claim>();

  constructor(options: SampleLoadsOptions) {
    this.#options = options;
  }

  /** Its request is here. */
  claim(transfer: ReceiveTransfer, transferIds: readonly number[]): void {
    const idle = { state: 'idle', firstBlock: 0, blocks: [] } as const;
    transfer.samples = transferIds.map((transferId) => ({ transferId, ...idle }));
    for (const sample of transfer.samples) this.#byId.set(sample.transferId, { transfer, sample });
  }

  notice(notice: TransferNotice): void {
    const claim = this.#byId.get(notice.transferId);
    if (notice.kind === 'loadEnded') {
      if (claim !== undefined) this.#end(claim);
    } else if (claim?.sample.state === 'idle') {
      this.#want(claim, notice.firstBlock, notice.blocks);
    } else {
      // The request ended before the engine knew.
      this.#options.order({ kind: 'loaded', transferId: notice.transferId, numTokens: 0 });
    }
  }

  /** All blocks are here. */
  received(transfer: ReceiveTransfer): void {
    for (const sample of transfer.samples) {
      if (sample.state === 'wanted') void this.#load({ transfer, sample });
    }
  }

  /** Nothing will come: who waits computes. */
  failed(transfer: ReceiveTransfer): void {
    for (const sample of [...transfer.samples]) {
      if (sample.state === 'wanted') this.#answer({ transfer, sample }, 0);
    }
  }

  /** The request is over; what is being copied is answered when it is. */
  endAll(transfer: ReceiveTransfer): void {
    for (const sample of [...transfer.samples]) this.#end({ transfer, sample });
  }

  #want(claim: Claim, firstBlock: number, blocks: readonly number[]): void {
    const { transfer, sample } = claim;
    sample.state = 'wanted';
    sample.firstBlock = firstBlock;
    sample.blocks = blocks;
    if (transfer.failure !== null) this.#answer(claim, 0);
    else if (transfer.state.is('received')) void this.#load(claim);
  }

  async #load(claim: Claim): Promise<void> {
    const { transfer, sample } = claim;
    const { mover, blockSize } = this.#options;
    const { open, numTokens } = transfer;
    const { firstBlock } = sample;
    const numBlocks = Math.ceil(numTokens / blockSize);
    if (firstBlock >= numBlocks) {
      this.#answer(claim, numTokens);
    } else if (open === null || firstBlock < open.firstBlock || sample.blocks.length < numBlocks) {
      this.#answer(claim, 0);
    } else {
      sample.state = 'loading';
      const blocks = Int32Array.from(sample.blocks.slice(firstBlock, numBlocks));
      const isIntact = await mover.load(open.ticket, firstBlock, blocks);
      if (isIntact) this.#options.onLoaded(numTokens - firstBlock * blockSize);
      else this.#options.onCorrupt(transfer);
      this.#answer(claim, isIntact ? numTokens : 0);
    }
  }

  #end(claim: Claim): void {
    if (claim.sample.state === 'wanted') this.#answer(claim, 0);
    else if (claim.sample.state === 'idle') this.#forget(claim);
  }

  #answer(claim: Claim, numTokens: number): void {
    this.#options.order({ kind: 'loaded', transferId: claim.sample.transferId, numTokens });
    this.#forget(claim);
  }

  #forget({ transfer, sample }: Claim): void {
    sample.state = 'done';
    this.#byId.delete(sample.transferId);
    if (transfer.samples.every(({ state }) => state === 'done')) this.#options.onDone(transfer);
  }
}
