// Every message between the main thread and the engine thread.

import type { MessagePort } from 'node:worker_threads';
import type { KvMemoryPart, KvTransferCommand, KvTransferEvent } from '../kv-transfer/connector.ts';
import type { AdapterSpec, LoadedAdapter } from '../models/adapters/load-adapter.ts';
import type { EngineInfo } from '../runner/executor.ts';
import type { NewRequest } from '../scheduler/request.ts';
import type { SchedulerStats, TokenOutput } from '../scheduler/scheduler.ts';
import type { PackedError } from '../util/packed-error.ts';
import type { PackedOutputs } from './packed-outputs.ts';

/** Counters and gauges of the engine thread. */
export interface CoreStats extends SchedulerStats {
  /** Time spent in forward passes and sampling since the start. */
  readonly busySeconds: number | null;
}

/** What came of one step. */
export interface StepOutputs {
  /** When it was finished, by performance.now() of the engine thread. */
  readonly at: number;
  /** Tokens that it computed. */
  readonly numTokens: number;
  /** What each request got that got something. */
  readonly outputs: readonly TokenOutput[];
}

export type ToEngine =
  /** Values that the samples of a request share are in the message once. */
  | { readonly type: 'add'; readonly requests: readonly NewRequest[] }
  | { readonly type: 'abort'; readonly requestIds: readonly number[] }
  | { readonly type: 'applyTransfer'; readonly command: KvTransferCommand }
  | { readonly type: 'loadAdapter'; readonly callId: number; readonly spec: AdapterSpec }
  /** No new request names it: it is freed when the last one that does has ended. */
  | { readonly type: 'unloadAdapter'; readonly adapterId: number }
  | { readonly type: 'stats'; readonly callId: number }
  | { readonly type: 'resetPrefixCache'; readonly callId: number }
  | { readonly type: 'close' };

export type FromEngine =
  | { readonly type: 'progress'; readonly fraction: number; readonly what: string }
  | { readonly type: 'warning'; readonly message: string }
  /**
   * `kvParts` is the KV memory, for the transfer engine; empty where no KV blocks are exchanged. `adapters` are those of
   * the configuration.
   */
  | {
      readonly type: 'ready';
      readonly info: EngineInfo;
      readonly kvParts: readonly KvMemoryPart[];
      readonly adapters: readonly LoadedAdapter[];
    }
  | { readonly type: 'adapterLoaded'; readonly callId: number; readonly adapter: LoadedAdapter }
  | { readonly type: 'adapterRefused'; readonly callId: number; readonly error: PackedError }
  | ({ readonly type: 'outputs'; readonly outputs: PackedOutputs } & Omit<StepOutputs, 'outputs'>)
  | { readonly type: 'transferEvent'; readonly event: KvTransferEvent }
  | { readonly type: 'stats'; readonly callId: number; readonly stats: CoreStats }
  | { readonly type: 'prefixCacheReset'; readonly callId: number; readonly isReset: boolean }
  | { readonly type: 'failed'; readonly error: PackedError };

/** What the engine thread is started with; its configuration follows as a message. */
export interface EngineThreadData {
  readonly port: MessagePort;
  /** Of its `Pulse`. */
  readonly pulse: SharedArrayBuffer;
}
