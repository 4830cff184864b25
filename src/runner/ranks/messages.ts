// Every message between rank 0 and the threads of the other ranks, the followers.

import type { MessagePort } from 'node:worker_threads';
import type { EngineConfig } from '../../config/engine-config.ts';
import type { KvMemoryPart } from '../../kv-transfer/connector.ts';
import type { AdapterSpec } from '../../models/adapters/load-adapter.ts';
import type { RankSeat } from '../../ops/ranks.ts';
import type { ScheduledStep, TileWork } from '../../scheduler/scheduled-step.ts';
import type { PackedError } from '../../util/packed-error.ts';
import type { RankMemory } from '../executor.ts';

/** What the thread of a follower is started with. */
export interface RankThreadData {
  readonly port: MessagePort;
  /** Counts what rank 0 has sent, so that the follower can wait for more without its event loop. */
  readonly sent: Int32Array;
  readonly config: EngineConfig;
  /** One for each stage of the model. */
  readonly seats: readonly RankSeat[];
}

export type ToRank =
  /** The least of what all ranks have proposed. */
  | { readonly type: 'agreed'; readonly value: number }
  | { readonly type: 'see'; readonly work: readonly TileWork[] }
  | { readonly type: 'step'; readonly step: ScheduledStep }
  /** Answered with `adapterDone`; steps that come meanwhile do not name it. */
  | { readonly type: 'loadAdapter'; readonly spec: AdapterSpec }
  | { readonly type: 'unloadAdapter'; readonly adapterId: number }
  | { readonly type: 'close' };

/** What a follower has loaded. */
export interface LoadedRank {
  /** [stages] */
  readonly shares: readonly RankMemory[];
  readonly isFromPackedCache: boolean;
  /** Its parts of the KV memory; empty where no KV blocks are exchanged. */
  readonly kvParts: readonly KvMemoryPart[];
}

export type FromRank =
  | { readonly type: 'progress'; readonly fraction: number; readonly what: string }
  | { readonly type: 'warning'; readonly message: string }
  | { readonly type: 'proposed'; readonly value: number }
  | ({ readonly type: 'ready' } & LoadedRank)
  /** `error` is null where the adapter is loaded. */
  | { readonly type: 'adapterDone'; readonly error: PackedError | null }
  | { readonly type: 'failed'; readonly error: PackedError };
