// What the engine knows of KV transfer: how a sequence's blocks come or go, and what the engine thread and the connector on
// the main thread tell each other about it, as plain data.

import type { TransportChoice } from '../config/kv-transfer-config.ts';
import type { ExtraKey } from '../kv-cache/prefix-hash.ts';

/** Over which blocks go. */
export type Transport = Exclude<TransportChoice, 'auto'>;

/** Part of a request to the engine thread. `transferId` is the connector's. */
export type SequenceTransfer =
  /** The blocks of the first `numTokens` tokens of the prompt leave as they are computed. */
  | { readonly kind: 'send'; readonly transferId: number; readonly numTokens: number }
  /** The blocks of the prompt come from elsewhere: the sequence holds blocks and waits. */
  | { readonly kind: 'load'; readonly transferId: number };

/** Engine thread -> connector. */
export type KvTransferEvent =
  /**
   * `blocks` are the sequence's, in the order of transfers (`numTransferred`), those for its states at the end; those from index
   * `firstBlock` on are to be filled.
   */
  | {
      readonly kind: 'load';
      readonly transferId: number;
      readonly firstBlock: number;
      readonly blocks: readonly number[];
    }
  /** The sequence needs nothing (any more): it was aborted, or its blocks were all here. */
  | { readonly kind: 'loadEnded'; readonly transferId: number };

/** Connector -> engine thread. */
export type KvTransferCommand =
  /**
   * The one answer to each `load`: the first `numTokens` tokens of the prompt are in its blocks, with what layers keep as states behind
   * them, and nothing writes into them any more. 0: none came.
   */
  | { readonly kind: 'loaded'; readonly transferId: number; readonly numTokens: number }
  /** The blocks that were held for sending can be reused, and those computed from now on are not held. */
  | { readonly kind: 'release'; readonly transferId: number };

export interface TransferRequest {
  /** X-Request-Id as the proxy made it. */
  readonly requestId: string;
  /** Which prompt of the request. */
  readonly promptIndex: number;
  readonly promptTokenIds: readonly number[];
  /** What the prompt's keys and values depend on besides its tokens. */
  readonly extraKeys: readonly ExtraKey[];
  readonly numSamples: number;
  /** Null is no limit. */
  readonly maxTokens: number | null;
  /** False where every token of the prompt must be computed here. */
  readonly mayLoad: boolean;
}

/** One prompt's part in a transfer, from its arrival to its end. */
export interface RequestTransfer {
  /** One entry a sample. */
  readonly sequences: readonly (SequenceTransfer | null)[];
  /** Resolves when the answer of the request may leave; always within a deadline. */
  answerable(): Promise<void>;
  /** The request is over; an incomplete transfer is cancelled, at the other instance too. */
  end(isComplete: boolean): void;
}

/** The engine, as a connector sees it. */
export interface TransferringEngine {
  applyTransfer(command: KvTransferCommand): void;
}

/** How a connector reaches the KV memory and the engine. */
export interface ConnectorContext {
  readonly compatibility: KvCompatibility;
  readonly parts: readonly KvMemoryPart[];
  /** Bytes of the host's memory that are left for blocks which come. */
  readonly receiveRoom: number;
  /** Whether the KV memory is that of a GPU. */
  readonly isOnGpu?: boolean;
  readonly engine: TransferringEngine;
  /** Gets messages for a person, such as that an instance serves another model. */
  readonly warn?: (message: string) => void;
  /** The same, where nothing is wrong. */
  readonly inform?: (message: string) => void;
}

/** From `first` up to `end`, which is not in it. */
export interface Range {
  readonly first: number;
  readonly end: number;
}

/**
 * What a part of the KV memory holds: keys and values of these heads of these layers. Layers that share a row of a block count as one, here
 * and in all of KV transfer.
 */
export interface KvPartPlace {
  /** A block has those of its group. */
  readonly layers: Range;
  /** Heads of keys and values; one for each rank where rows are whole. */
  readonly heads: Range;
}

/**
 * The KV memory of an instance is in parts: one for each rank, with its heads, and for each stage, with its layers. A block has the
 * same number in all of them. What is whole on every rank is in several parts.
 */
export interface KvMemoryPart extends KvPartPlace {
  /** Names the memory for the native transfer engine; can be used once. */
  readonly token: bigint;
}

/** What two instances must have in common to exchange blocks. */
export interface KvCompatibility {
  /** Fingerprint of the model's configuration and weights. */
  readonly model: string;
  /** The instruction set: sums are equal only on the same one. */
  readonly isa: string;
  /** What is computed in. */
  readonly dtype: string;
  /** Of keys and values. */
  readonly kvDType: string;
  /** Quantised weights compute other keys and values. */
  readonly weightFormat: string;
  readonly blockSize: number;
  /** [groups of layers] See `BlockGroups`. */
  readonly windows: readonly (number | null)[];
  /** See `BlockGroups`. */
  readonly stateBlocks?: number;
  /** Whether layers have heads of their own, so that a row of a block, which may hold several, goes as a whole. */
  readonly hasWholeRows?: boolean;
  readonly layers: number;
  /** [layers] The group of each; left out where there is one group. */
  readonly layerGroups?: readonly number[] | undefined;
  /** Those of `KvPartPlace`, over all parts of the memory. */
  readonly heads: number;
  /** Bytes of one layer of one block, over all heads. */
  readonly layerBlockBytes: number;
}

/** Counters since the start, except where it says now. */
export interface KvTransferStats {
  readonly send: Readonly<Record<SendOutcome, number>> & {
    readonly bytes: number;
    readonly bytesOver: Readonly<Record<Transport, number>>;
    /** Transfers whose blocks cannot be reused, now. */
    readonly holding: number;
  };
  readonly receive: {
    /** Transfers that have arrived, by who began them and by where they came to. */
    readonly pushed: number;
    readonly pulled: number;
    readonly viaBuffer: number;
    readonly viaPool: number;
    readonly loadedTokens: number;
    /** Prompts that were computed here after all. */
    readonly recomputed: Readonly<Record<RecomputeReason, number>>;
    readonly corruptLayerBlocks: number;
    readonly bytes: number;
    /** Now, as all that follow. */
    readonly receiveBuffers: number;
    readonly bufferUsedBytes: number;
    readonly poolUsedBytes: number;
  };
  readonly peers: number;
}

/** How a transfer ended; expired: nobody asked for it in time. */
export type SendOutcome = 'delivered' | 'expired' | 'cancelled' | 'failed';
/** Why blocks did not come. */
export type RecomputeReason = 'peer_gone' | 'unknown' | 'no_room' | 'late' | 'corrupt' | 'mismatch';
