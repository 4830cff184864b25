// What the two sides need of the native threads that move blocks: numbers in, promises and events out.

import type { Endpoints } from './identity.ts';

export interface BlockMover {
  /** What peers connect to. */
  readonly endpoints: Endpoints;
  readonly bytesSent: number;
  readonly bytesReceived: number;

  /** Connects to a peer; null where it does not come about. @returns the link. */
  connect(endpoints: Endpoints): Promise<number | null>;
  disconnect(link: number): void;
  /** False as soon as a link is known to be down, before its event is heard. */
  isUp(link: number): boolean;

  /** A transfer of `numBlocks` blocks, which the engine thread feeds under the same number. */
  openSend(transferId: number, numBlocks: number): void;
  /** Sends blocks from `firstBlock` on over `link`: what is computed now and what will be. */
  grant(transferId: number, link: number, ticket: bigint, firstBlock: number): void;
  /** Resolves when nothing reads the blocks any more. */
  closeSend(transferId: number): Promise<void>;

  /** Lets blocks from `firstBlock` on come to these byte offsets of the receive memory. */
  openReceive(ticket: bigint, firstBlock: number, offsets: Float64Array): void;
  /** Pieces that have come so far. */
  progress(ticket: bigint): number;
  /** Resolves when nothing is written into the receive memory any more. */
  closeReceive(ticket: bigint): Promise<void>;
  /** Copies blocks from `firstBlock` of the transfer on into `blocks`; resolves to whether they are what was sent. */
  load(ticket: bigint, firstBlock: number, blocks: Int32Array): Promise<boolean>;

  /** Ends all threads; what is waited for resolves. */
  close(): void;
}

export interface MoverEvents {
  readonly sent: (transferId: number) => void;
  readonly received: (ticket: bigint) => void;
  readonly corrupt: (ticket: bigint) => void;
  readonly linkDown: (link: number, reason: string) => void;
}
