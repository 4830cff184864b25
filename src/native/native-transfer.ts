// What the addon's KV transfer takes and does: blocks of KV memory from one instance to another.

/** How keys and values lie in a layer block: sections one after the other, each [heads][tiles of `tileTokens` tokens]. */
export interface NativeLayerBlockShape {
  readonly heads: number;
  /** Of a block. */
  readonly tokens: number;
  readonly tileTokens: number;
  /** [sections] Bytes of a tile. */
  readonly tileBytes: readonly number[];
}

/** One part of the KV memory of an instance: the layers and the heads that it holds. */
export interface NativeKvPart {
  /** Of `share` or `shareKvMemory`; can be used once. */
  readonly token: bigint;
  readonly layers: { readonly first: number; readonly end: number };
  readonly heads: { readonly first: number; readonly end: number };
}

/** How blocks of two instances are cut into pieces: the heads into `shards` of one size, the tokens into runs of `tokens`. */
export interface NativeCut {
  readonly shards: number;
  readonly tokens: number;
}

/** KV memory without a backend: what tests and instances without a model move. Layer blocks are [layer][block]. */
export interface NativeKvMemory {
  /** See NativeBackend.shareKvMemory. */
  share(): bigint;
  /**
   * Which blocks this step completes: entries `[sendId, firstIndex, count, block * count]` one after the other, where
   * `firstIndex` is the index of the first block in the transfer.
   */
  onKvStep(sends: Int32Array): void;
  /** `layer` of all blocks of this step is stored; layers come in order, each step anew. */
  onKvLayerSaved(layer: number): void;
  write(layer: number, block: number, bytes: Uint8Array): void;
  read(layer: number, block: number): Uint8Array;
}

export type NativeTransferEvent =
  | { readonly type: 'linkUp'; readonly link: number }
  | { readonly type: 'linkDown'; readonly link: number; readonly reason: string }
  /** Everything of this send has been handed to the other side. */
  | { readonly type: 'sent'; readonly send: number }
  /** Nothing reads the blocks of this send any more. */
  | { readonly type: 'sendClosed'; readonly send: number }
  /** All pieces have come and are what was sent. */
  | { readonly type: 'received'; readonly ticket: bigint }
  /** A piece is not what was sent, as it came (the rest goes on) or as it was copied. */
  | { readonly type: 'corrupt'; readonly ticket: bigint }
  /** Nothing writes into its places or reads them any more. */
  | { readonly type: 'receiveClosed'; readonly ticket: bigint }
  /** Nothing writes into the blocks any more; whether they are filled with what was sent. */
  | { readonly type: 'loaded'; readonly load: number; readonly isIntact: boolean };

export interface NativeTransferOptions {
  /** [layers] The group of layers that shares blocks, of each; left out, all are of one. */
  readonly layerGroups?: readonly number[] | undefined;
  /** Bytes of the receive memory. */
  readonly receiveBytes: number;
  /** Address of the TCP listener, port 0 for any; null for none. */
  readonly tcp: { readonly host: string; readonly port: number } | null;
  /** Whether to listen for instances of this host. */
  readonly shm: boolean;
  /** Whether to listen for other GPUs of this host: where that cannot be, `required` throws. Left out, no. */
  readonly cudaIpc?: 'required' | 'possible' | 'no';
  /** Address of the listener for GPUs that send over NCCL, port 0 for any; it throws where NCCL is not there. Left out, or null for none. */
  readonly nccl?: { readonly host: string; readonly port: number } | null;
  /** A file. Links over NCCL need it. */
  readonly ncclLibrary?: string;
  /** Of each communicator; 0 leaves them to NCCL. */
  readonly ncclChannels?: number;
  /**
   * What of the receive memory, from its beginning, has memory of GPUs for what comes from others: each has room for its part of the
   * same blocks. Left out, nothing.
   */
  readonly deviceBytes?: number;
}

export type Transport = 'shm' | 'tcp' | 'cuda-ipc' | 'nccl';

/**
 * Moves pieces of blocks between the KV memories of instances, on threads of its own. One JavaScript thread owns it; `onEvents`
 * is called there with what has happened, until `close`. It does not keep the process alive.
 */
export interface NativeTransferEngine {
  /** What peers connect to; null where not listened. The name of shm lies in the abstract namespace. */
  readonly endpoints: {
    readonly shm: string | null;
    readonly tcp: string | null;
    readonly 'cuda-ipc'?: string;
    readonly nccl?: string;
  };

  /**
   * Begins to connect; `linkUp` or `linkDown` follows. `sockets` is for tcp, for each part.
   * @param cut of this instance's blocks and the peer's; left out, the peer's memory is in parts as this one's
   * @returns the link.
   */
  connect(kind: Transport, address: string, sockets: number, cut?: NativeCut): number;
  disconnect(link: number): void;

  /**
   * A transfer of `numBlocks` blocks, which leave as they are saved. `send` is the caller's number.
   * @param groups [blocks] the group of layers of each; left out, all are of the first
   */
  openSend(send: number, numBlocks: number, groups?: Uint8Array): void;
  /**
   * Sends runs of tokens of the link's cut over `link`, from index `first` of the transfer up to `end`, those saved so far and those to
   * come; from the beginning where called again. Where blocks are not cut a run is a block. `end` left out, all.
   */
  grant(send: number, link: number, ticket: bigint, first: number, end?: number): void;
  /** `sendClosed` follows. */
  closeSend(send: number): void;

  /**
   * Lets blocks `firstBlock` .. `firstBlock + offsets.length` of a transfer come into the receive memory, all layers of a block one
   * after the other. The last block has `lastTokens` tokens; left out, all.
   * @param groups as of `openSend`, of these blocks
   */
  openReceive(
    ticket: bigint,
    firstBlock: number,
    offsets: Float64Array,
    lastTokens?: number,
    groups?: Uint8Array,
  ): void;
  /** Pieces that have come so far. */
  progress(ticket: bigint): number;
  /** Ends its loads; `receiveClosed` follows: nothing writes into its places or reads them any more. */
  closeReceive(ticket: bigint): void;
  /**
   * Copies blocks from index `firstBlock` of the transfer on into `blocks` of the KV memory, as they come. `loaded` follows
   * when all of the transfer has come and is copied, when a piece was damaged since it came (after `corrupt`), or when
   * the receive is closed; nothing writes into `blocks` from then on.
   */
  load(load: number, ticket: bigint, firstBlock: number, blocks: Int32Array): void;

  readonly bytesSent: number;
  bytesSentOver(kind: Transport): number;
  readonly bytesReceived: number;
  /** Ends the threads; nothing may be called after it. */
  close(): void;
}
